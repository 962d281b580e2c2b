-- What dbinfer.read_line returns, and dbinfer.find_text and dbinfer.read for each line.
CREATE TYPE dbinfer.reading AS (text text, score real);
COMMENT ON TYPE dbinfer.reading IS 'what a line says: its text, and the mean score of the characters';
CREATE TYPE dbinfer.text_line AS (text text, score real, box real[]);
COMMENT ON TYPE dbinfer.text_line IS 'one line of text: what it says (NULL where it was only found), score, and x and y of its four corners in pixels of the image as shown, the upper left one first';
