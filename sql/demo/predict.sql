-- The ten outputs of the network for three images.
SELECT path, dbinfer.predict(img) AS p FROM images ORDER BY id LIMIT 3
