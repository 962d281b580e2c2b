-- The masks of all photographs, as PNG, in the order of their names.
SELECT path, img, dbinfer.segment(img, 'strokes') AS mask FROM strokes ORDER BY path
