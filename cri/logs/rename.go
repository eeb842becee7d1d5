package logs

import "os"

// linkNew is renameNew in two steps. Between them the file has both names.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}
