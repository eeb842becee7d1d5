package projected

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

type payloadFile struct {
	Data []byte
	// Mode has the permissions, 0 to 0777.
	Mode int32
	// Owner is the user of the file. Nil means the agent's user.
	Owner *int64
}

// payload maps paths below the volume to the desired files.
type payload map[string]payloadFile

// Limits of file systems, in bytes.
const (
	maxPath      = 4096
	maxComponent = 255
)

func (p payload) add(files payload) {
	for name, f := range files {
		p[path.Clean(name)] = f
	}
}

// checkPath returns an error for an invalid path of a file: empty, absolute, too long for file
// systems, invalid UTF-8, with "..", or beginning with two dots, which are reserved for
// writePayload.
func checkPath(name string) error {
	clean := path.Clean(name)
	parts := strings.Split(name, "/")
	switch {
	case name == "" || clean == ".":
		return fmt.Errorf("path %q is empty", name)
	case path.IsAbs(name):
		return fmt.Errorf("path %.80q is absolute", name)
	case len(name) > maxPath:
		return fmt.Errorf("path %.80q... has %d bytes, more than %d", name, len(name), maxPath)
	case slices.Contains(parts, ".."):
		return fmt.Errorf("path %.80q contains \"..\"", name)
	case strings.HasPrefix(clean, ".."):
		return fmt.Errorf("path %.80q begins with \"..\"", name)
	case strings.Contains(name, "\x00") || !utf8.ValidString(name):
		return fmt.Errorf("path %.80q is not text", name)
	}
	for _, part := range parts {
		if len(part) > maxComponent {
			return fmt.Errorf("path %.80q...: %.80q... has %d bytes, more than %d", name, part, len(part), maxComponent)
		}
	}
	return nil
}

// check returns the payload with cleaned paths. It fails for an invalid path (checkPath), two
// spellings of one path, a file whose path is also a folder, or an invalid mode or owner.
func (p payload) check() (payload, error) {
	out := make(payload, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		f := p[name]
		if err := checkPath(name); err != nil {
			return nil, err
		}
		if f.Mode < 0 || f.Mode > 0o777 {
			return nil, fmt.Errorf("path %.80q: mode %#o is not from 0 to 0777", name, f.Mode)
		}
		if f.Owner != nil && (*f.Owner < 0 || *f.Owner > 1<<32-2) {
			return nil, fmt.Errorf("path %.80q: owner %d is not a valid user ID", name, *f.Owner)
		}
		clean := path.Clean(name)
		if _, twice := out[clean]; twice {
			return nil, fmt.Errorf("path %.80q occurs twice", clean)
		}
		out[clean] = f
	}
	for name := range out {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, file := out[dir]; file {
				return nil, fmt.Errorf("path %.80q is both a file and a folder of %.80q", dir, name)
			}
		}
	}
	return out, nil
}

func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}
