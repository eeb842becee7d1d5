package allocation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// The names of the files, below the agent's root directory.
const (
	// AllocatedFile has what pods were granted.
	AllocatedFile = "allocated_pods_state"
	// ActuatedFile has what the runtime was last told of them.
	ActuatedFile = "actuated_pods_state"
)

// What is wrong with a file.
var (
	// ErrCorrupt says that a file is damaged.
	ErrCorrupt = errors.New("the file is damaged")
	// ErrVersion says that a file is whole, but has something in it that this version does
	// not know: a newer agent has written it, or a very old one.
	ErrVersion = errors.New("the file was written by another version")
)

// file is what is in a file. Its checksum is that of the text of Data.
type file struct {
	Data     string `json:"data"`
	Checksum uint64 `json:"checksum"`
}

// content is what Data says.
type content struct {
	Entries map[types.UID]Resources `json:"entries,omitempty"`
}

// checksum is upstream's, which hashes the text as Go's debuggers print it.
func checksum(data string) uint64 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, "(string)"+data) // a hash takes everything
	return uint64(h.Sum32())
}

func encode(entries map[types.UID]Resources) ([]byte, error) {
	data, err := json.Marshal(content{Entries: entries})
	if err != nil {
		return nil, err
	}
	return json.Marshal(file{Data: string(data), Checksum: checksum(string(data))})
}

// decode reads a file. Errors are, or wrap, ErrCorrupt or ErrVersion.
func decode(data []byte) (map[types.UID]Resources, error) {
	var f file
	if err := strict(data, &f); err != nil {
		return nil, err
	}
	if f.Checksum != checksum(f.Data) {
		return nil, fmt.Errorf("%w: its checksum does not match", ErrCorrupt)
	}
	var c content
	if err := strict([]byte(f.Data), &c); err != nil {
		return nil, err
	}
	for uid, r := range c.Entries {
		if err := r.check(); uid == "" || err != nil {
			return nil, fmt.Errorf("%w: pod %q: %w", ErrCorrupt, uid, errors.Join(err))
		}
	}
	return c.Entries, nil
}

// strict reads JSON that has no field which is not known.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	switch {
	case err == nil && len(bytes.TrimSpace(data[d.InputOffset():])) == 0:
		return nil
	case err == nil:
		return fmt.Errorf("%w: something follows it", ErrCorrupt)
	case strings.HasPrefix(err.Error(), "json: unknown field"): // there is no type for it
		return fmt.Errorf("%w: %w", ErrVersion, err)
	default:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
}
