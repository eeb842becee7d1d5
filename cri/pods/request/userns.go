package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// UserNamespaceFile is the name of the file in a pod's directory that has its user namespace. A
// restarted agent, or an upstream kubelet, reads the allocated ID ranges from these files.
const UserNamespaceFile = "userns"

// UserNamespace is the ID range of a pod's users and groups: the IDs from 0 to Length-1 in the
// pod are the IDs from HostID on the node.
type UserNamespace struct {
	HostID, Length uint32
}

func (u UserNamespace) options() *runtimeapi.UserNamespace {
	one := func() []*runtimeapi.IDMapping {
		return []*runtimeapi.IDMapping{{HostId: u.HostID, Length: u.Length}}
	}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: one(), Gids: one()}
}

// The content of a UserNamespaceFile.
type (
	userNamespaceFile struct {
		UIDs []idMapping `json:"uidMappings"`
		GIDs []idMapping `json:"gidMappings"`
	}
	idMapping struct {
		HostID      uint32 `json:"hostId"`
		ContainerID uint32 `json:"containerId"`
		Length      uint32 `json:"length"`
	}
)

// Encode returns the content of a UserNamespaceFile.
func (u UserNamespace) Encode() []byte {
	ids := []idMapping{{HostID: u.HostID, Length: u.Length}}
	content, err := json.Marshal(userNamespaceFile{UIDs: ids, GIDs: ids})
	if err != nil { // numbers always marshal
		return nil
	}
	return content
}

// DecodeUserNamespace parses the content of a UserNamespaceFile. Users and groups must have the
// same single mapping from 0; kubelets write no other form.
func DecodeUserNamespace(content []byte) (UserNamespace, error) {
	var f userNamespaceFile
	if err := json.Unmarshal(content, &f); err != nil {
		return UserNamespace{}, fmt.Errorf("invalid user namespace file: %w", err)
	}
	switch {
	case len(f.UIDs) != 1 || len(f.GIDs) != 1:
		return UserNamespace{}, errors.New("invalid user namespace file: want one user mapping and one group mapping")
	case f.UIDs[0] != f.GIDs[0]:
		return UserNamespace{}, errors.New("invalid user namespace file: user and group mappings differ")
	case f.UIDs[0].ContainerID != 0:
		return UserNamespace{}, errors.New("invalid user namespace file: ID 0 is not mapped")
	case f.UIDs[0].Length == 0 || f.UIDs[0].HostID == 0:
		return UserNamespace{}, errors.New("invalid user namespace file: the range is empty or maps root to the node's root")
	}
	return UserNamespace{HostID: f.UIDs[0].HostID, Length: f.UIDs[0].Length}, nil
}

// IDRange configures IDs. The zero value is the kubelet's default.
type IDRange struct {
	// PerPod is the number of IDs per pod, a multiple of 65536. Default: 65536.
	PerPod uint32
	// First is the first ID for pods, a multiple of PerPod. Default: PerPod, so that no pod gets
	// the IDs of the node's own users.
	First uint32
	// Length is the number of IDs for pods, a multiple of PerPod. Default: all up to 2^32.
	Length uint32
	// MaxPods is the number of pods that must have room. Default: 1.
	MaxPods int
}

// IDs allocates a separate ID range to each pod. It keeps them in memory: call Record for the
// pods from before the agent's start, and write each range to its file (Encode) before the pod
// starts. IDs is safe for concurrent use.
type IDs struct {
	perPod, first uint32

	mu   sync.Mutex
	used []bool // by position of the range
	next int    // position where the search starts, so that ranges are not reused at once
	pods map[types.UID]int
}

const idUnit = 65536

// NewIDs validates the range and returns IDs without allocations.
func NewIDs(r IDRange) (*IDs, error) {
	if r.PerPod == 0 {
		r.PerPod = idUnit
	}
	if r.First == 0 {
		r.First = r.PerPod
	}
	length := uint64(r.Length)
	if length == 0 {
		length = 1<<32 - uint64(r.First)
		length -= length % uint64(r.PerPod)
	}
	switch {
	case r.PerPod%idUnit != 0:
		return nil, fmt.Errorf("request: IDRange.PerPod: %d is not a multiple of %d", r.PerPod, idUnit)
	case r.First%r.PerPod != 0:
		return nil, fmt.Errorf("request: IDRange.First: %d is not a multiple of %d", r.First, r.PerPod)
	case length%uint64(r.PerPod) != 0:
		return nil, fmt.Errorf("request: IDRange.Length: %d is not a multiple of %d", length, r.PerPod)
	case uint64(r.First)+length > 1<<32:
		return nil, fmt.Errorf("request: IDRange.Length: %d IDs from %d exceed 2^32", length, r.First)
	case length/uint64(r.PerPod) < uint64(max(r.MaxPods, 1)):
		return nil, fmt.Errorf("request: IDRange: %d IDs are not enough for %d pods", length, max(r.MaxPods, 1))
	}
	return &IDs{
		perPod: r.PerPod, first: r.First,
		used: make([]bool, length/uint64(r.PerPod)), pods: map[types.UID]int{},
	}, nil
}

// Allocate returns the range of a pod, or allocates a free one.
func (d *IDs) Allocate(uid types.UID) (UserNamespace, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.pods[uid]; ok {
		return d.at(i), nil
	}
	for n := range d.used {
		i := (d.next + n) % len(d.used)
		if !d.used[i] {
			d.used[i], d.pods[uid], d.next = true, i, i+1
			return d.at(i), nil
		}
	}
	return UserNamespace{}, errors.New("no free ID range")
}

// Record records the range of an existing pod. It returns an error if that is not one of these
// ranges, as after a change of PerPod, or if it belongs to another pod. If the range is of
// another size or alignment, the IDs that it covers are not allocated.
func (d *IDs) Record(uid types.UID, u UserNamespace) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if u.Length != d.perPod || u.HostID%d.perPod != 0 {
		d.block(u)
		return fmt.Errorf("the range of %d IDs from %d is not a range of %d IDs", u.Length, u.HostID, d.perPod)
	}
	i := (int64(u.HostID) - int64(d.first)) / int64(d.perPod)
	if u.HostID < d.first || i >= int64(len(d.used)) {
		return fmt.Errorf("ID %d is out of range", u.HostID)
	}
	have, ok := d.pods[uid]
	switch {
	case ok && have != int(i):
		return fmt.Errorf("the pod already has the range from %d", d.at(have).HostID)
	case !ok && d.used[i]:
		return fmt.Errorf("the range from %d belongs to another pod", u.HostID)
	}
	d.used[i], d.pods[uid] = true, int(i)
	return nil
}

// block prevents the allocation of ranges that overlap with u, because a pod may be running with
// them.
func (d *IDs) block(u UserNamespace) {
	begin, end := int64(u.HostID)-int64(d.first), int64(u.HostID)+int64(u.Length)-int64(d.first)
	for i := max(begin/int64(d.perPod), 0); i < int64(len(d.used)) && i*int64(d.perPod) < end; i++ {
		d.used[i] = true
	}
}

// Release frees the range of a pod, if it has one. The pod's containers must have stopped.
func (d *IDs) Release(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.pods[uid]; ok {
		delete(d.pods, uid)
		d.used[i] = false
	}
}

// Pods returns the pods that have a range, in no order.
func (d *IDs) Pods() []types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]types.UID, 0, len(d.pods))
	for uid := range d.pods {
		out = append(out, uid)
	}
	return out
}

func (d *IDs) at(i int) UserNamespace {
	return UserNamespace{HostID: d.first + uint32(i)*d.perPod, Length: d.perPod}
}

// ParseSubIDs parses the output of getsubids for a user, such as "0: kubelet 65536 7208960", into
// the first ID and the number of IDs. The output must have one range. The ranges of users and
// groups must be equal, which the caller checks.
func ParseSubIDs(output string) (first, length uint32, err error) {
	words := strings.Fields(output)
	if len(words) != 4 || strings.Contains(strings.TrimRight(output, "\n"), "\n") {
		return 0, 0, fmt.Errorf("getsubids: want one range: %q", output)
	}
	var numbers [2]uint64
	for i := range numbers {
		if numbers[i], err = strconv.ParseUint(words[2+i], 10, 32); err != nil {
			return 0, 0, fmt.Errorf("getsubids: %q: %w", output, err)
		}
	}
	return uint32(numbers[0]), uint32(numbers[1]), nil
}
