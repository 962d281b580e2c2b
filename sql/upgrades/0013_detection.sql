-- What dbinfer.detect returns for each object.
CREATE TYPE dbinfer.detection AS (label text, class integer, score real, x real, y real, width real, height real);
COMMENT ON TYPE dbinfer.detection IS 'one object: its label (NULL without labels), class number and score; x and y of the upper left corner, width and height in pixels of the image as shown';
