"""Networks as people write them, for nothing but Keras: texts of Python files."""

from __future__ import annotations

# A script as Keras' own examples are: data that is not there, a network, fit
SCRIPT = """
import numpy as np
import package_that_is_not_installed
from tensorflow import keras
from tensorflow.keras import layers

num_classes = 10
input_shape = (28, 28, 1)
filters = 8

(x_train, y_train), (x_test, y_test) = package_that_is_not_installed.load()
x_train = np.expand_dims(x_train, -1) / 255
y_train = keras.utils.to_categorical(y_train, num_classes)
print(x_train.shape[0], "train samples")

model = keras.Sequential()
model.add(keras.Input(shape=input_shape))
for factor in (1, 2):
    model.add(layers.Conv2D(factor * filters, kernel_size=3, activation="relu"))
    model.add(layers.MaxPooling2D(pool_size=2))
model.add(layers.Flatten())
model.add(layers.Dropout(0.25))
model.add(layers.Dense(num_classes, activation="softmax"))
model.summary()

model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=128, epochs=15, validation_split=0.1)
score = model.evaluate(x_test, y_test, verbose=0)
model = keras.Sequential([model, layers.Softmax()])
"""

# Two branches that look at the image in different sizes; nothing in it depends on chance or on the batch
BRANCHES = """
import keras
from keras import layers

WIDTH = 4


def branch(x, size, name):
    x = layers.Conv2D(WIDTH, size, padding="same", activation="relu", name=f"{name}_conv1")(x)
    x = layers.MaxPooling2D(4, name=f"{name}_pool")(x)
    return layers.Conv2D(2 * WIDTH, 3, padding="same", activation="relu", name=f"{name}_conv2")(x)


def build(classes=10, size=28):
    image = keras.Input((size, size, 1), name="image")
    fine, coarse = branch(image, 3, "fine"), branch(image, 7, "coarse")
    x = layers.Concatenate()([fine, coarse])
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(classes, name="scores")(x), name="branches")
"""

# A function among others, which compiles what it returns: two classes are one output
FUNCTION = """
import os
from tensorflow import keras

for name in os.listdir("PetImages"):
    os.remove(name)


def get_dataset(batch_size):
    return keras.utils.image_dataset_from_directory("PetImages", batch_size=batch_size)


def make_model(input_shape, num_classes):
    model = keras.Sequential([
        keras.Input(shape=input_shape),
        keras.layers.Rescaling(1.0 / 255),
        keras.layers.Conv2D(4, 3, strides=2, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
        keras.layers.Dense(1 if num_classes == 2 else num_classes),
    ])
    loss = keras.losses.BinaryCrossentropy if num_classes == 2 else keras.losses.CategoricalCrossentropy
    model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.02), loss=loss(from_logits=True), metrics=["acc"])
    return model


model = make_model((180, 180, 3), 2)
model.fit(get_dataset(32), epochs=25)
"""

# One score for each pixel, with what a file may say beside build
MASKS = """
import keras
from keras import layers, ops


def build(size=16, depth=1):
    image = keras.Input((size, size, 3))
    x = image
    for _ in range(depth):
        x = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    return keras.Model(image, layers.Conv2D(1, 1)(x))


def manifest(size):
    return {"mean": [127.5], "scale": [127.5], "threshold": 0.4}


def loss(truths, scores):
    return ops.mean(ops.square(truths - ops.sigmoid(scores)), axis=(1, 2, 3))


metrics = [keras.metrics.BinaryAccuracy(name="pixels", threshold=0.0)]
"""
