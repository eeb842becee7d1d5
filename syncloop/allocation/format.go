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
	// AllocatedFile has the allocations.
	AllocatedFile = "allocated_pods_state"
	// ActuatedFile has the resources last passed to the runtime.
	ActuatedFile = "actuated_pods_state"
)

// Errors of Open.
var (
	// ErrCorrupt is returned for a damaged file.
	ErrCorrupt = errors.New("the file is damaged")
	// ErrVersion is returned for an undamaged file with unknown fields, which a newer or very old
	// agent wrote.
	ErrVersion = errors.New("the file was written by another version")
)

// file is the outer JSON object. Checksum is the checksum of the text of Data.
type file struct {
	Data     string `json:"data"`
	Checksum uint64 `json:"checksum"`
}

// content is the JSON object in Data.
type content struct {
	Entries map[types.UID]Resources `json:"entries,omitempty"`
}

// checksum is upstream's: it hashes the text in the format of a Go debugger.
func checksum(data string) uint64 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, "(string)"+data) // a hash returns no error
	return uint64(h.Sum32())
}

func encode(entries map[types.UID]Resources) ([]byte, error) {
	data, err := json.Marshal(content{Entries: entries})
	if err != nil {
		return nil, err
	}
	return json.Marshal(file{Data: string(data), Checksum: checksum(string(data))})
}

// decode parses a file. Errors wrap ErrCorrupt or ErrVersion.
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

// strict parses JSON without unknown fields.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	switch {
	case err == nil && len(bytes.TrimSpace(data[d.InputOffset():])) == 0:
		return nil
	case err == nil:
		return fmt.Errorf("%w: data follows the JSON object", ErrCorrupt)
	case strings.HasPrefix(err.Error(), "json: unknown field"): // encoding/json has no error type for it
		return fmt.Errorf("%w: %w", ErrVersion, err)
	default:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
}
