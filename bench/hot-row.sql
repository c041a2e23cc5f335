UPDATE hot SET value = value + 1 WHERE id = 1;
