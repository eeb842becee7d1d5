package checkpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
)

// version is the version of the file format. A change that older or newer agents would
// misinterpret needs another number.
const version = 1

// shortMessage is the maximum size, in bytes, of the message of a condition in a record that
// would otherwise be too large. Other components may write conditions of any size.
const shortMessage = 1 << 10

type file struct {
	Version int       `json:"version"`
	UID     types.UID `json:"uid"`
	// Sum is the CRC-32C of the bytes of Record. A file that lost a part may still be valid JSON.
	Sum    uint32          `json:"crc32c"`
	Record json.RawMessage `json:"record"`
}

func checksum(record []byte) uint32 {
	return crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli))
}

// encode returns the content of a pod's file, at most maxSize bytes, and the bytes of its record.
func encode(uid types.UID, r Record) (data, record []byte, err error) {
	r.Status.Conditions = slices.Clone(r.Status.Conditions)
	for i := range r.Status.Conditions {
		r.Status.Conditions[i].LastProbeTime = metav1.Time{}
	}
	r.Probes = slices.Clone(r.Probes)
	slices.SortFunc(r.Probes, func(a, b probe.Stored) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ContainerID, b.ContainerID))
	})
	for _, prepare := range []func(){func() {}, func() { shorten(r.Status.Conditions) }} {
		prepare()
		if record, err = json.Marshal(r); err != nil {
			return nil, nil, err
		}
		data, err = json.Marshal(file{Version: version, UID: uid, Sum: checksum(record), Record: record})
		if err != nil || len(data) <= maxSize {
			return data, record, err
		}
	}
	return nil, nil, fmt.Errorf("%w: %d bytes, allowed are %d", ErrTooLarge, len(data), maxSize)
}

func shorten(conditions []v1.PodCondition) {
	for i := range conditions {
		if m := conditions[i].Message; len(m) > shortMessage {
			conditions[i].Message = strings.ToValidUTF8(m[:shortMessage], "")
		}
	}
}

// decode decodes a pod's file. It also returns the bytes of the record. Its errors wrap
// ErrCorrupt.
func decode(data []byte, uid types.UID) (r Record, record []byte, err error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return Record{}, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	switch {
	case f.Version != version:
		err = fmt.Errorf("%w: version is %d, not %d", ErrCorrupt, f.Version, version)
	case f.UID != uid:
		err = fmt.Errorf("%w: belongs to pod %q", ErrCorrupt, f.UID)
	case f.Sum != checksum(f.Record):
		err = fmt.Errorf("%w: checksum mismatch", ErrCorrupt)
	}
	if err != nil {
		return Record{}, nil, err
	}
	if err := json.Unmarshal(f.Record, &r); err != nil {
		return Record{}, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return r, f.Record, nil
}
