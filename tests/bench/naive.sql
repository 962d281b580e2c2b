-- What a first attempt looks like: import, read, compile and infer in every call.
CREATE FUNCTION {schema}.{name}(img bytea) RETURNS real[] LANGUAGE plpython3u STABLE PARALLEL {parallel} COST 100000 AS $$
import site, sys
site.addsitedir({site})
# that appends, and the system's own numpy must not come first
sys.path.remove({site})
sys.path.insert(0, {site})
sys.modules.setdefault("openvino_telemetry", None)
import cv2, numpy, openvino
core = openvino.Core()
compiled = core.compile_model(core.read_model({model}), "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})
image = cv2.imdecode(numpy.frombuffer(img, numpy.uint8), cv2.IMREAD_COLOR)
x = cv2.resize(image, ({width}, {height})).astype(numpy.float32) - numpy.float32({mean})
return compiled(x[None])[0][0].tolist()
$$
