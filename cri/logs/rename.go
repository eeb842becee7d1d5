package logs

import "os"

// linkNew implements renameNew in two steps, between which the file has both names.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}
