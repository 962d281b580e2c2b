-- Keras inside a function, as first written: the model is kept between calls or loaded in each; every row is a model.predict.
CREATE FUNCTION {schema}.{name}(img bytea) RETURNS real[] LANGUAGE plpython3u STABLE COST 100000 AS $$
if {each} or "keras_model" not in GD:
    import os, site, sys
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    site.addsitedir({site})
    # that appends, and with the system's protobuf TensorFlow crashes the server
    sys.path.remove({site})
    sys.path.insert(0, {site})
    import keras
    GD["keras_model"] = keras.saving.load_model({model}, compile=False)
import cv2, numpy
image = cv2.imdecode(numpy.frombuffer(img, numpy.uint8), cv2.IMREAD_COLOR)
x = cv2.resize(image, ({width}, {height})).astype(numpy.float32) - numpy.float32({mean})
return GD["keras_model"].predict(x[None], verbose=0)[0].tolist()
$$
