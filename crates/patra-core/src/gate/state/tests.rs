mod asking;
