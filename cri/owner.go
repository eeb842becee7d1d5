package cri

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/fs"
)

// LabelOwner is the label with the owner's name on sandboxes and containers.
const LabelOwner = "podwright.dev/owner"

// labelPodUID is labels.PodUID of package cri/pods/labels.
const labelPodUID = "io.kubernetes.pod.uid"

// ErrOwnerInUse is wrapped by Owner.Lock if another process has the lock.
var ErrOwnerInUse = errors.New("another agent with this owner uses the runtime")

// Owner identifies an agent among the agents of one runtime. An agent lists, changes and removes
// only its own sandboxes and containers. The owner of an object never changes. The zero Owner is
// invalid: set Name or Unlabelled.
//
// The upstream kubelet ignores owners. It removes the pods of all others.
type Owner struct {
	// Name is the value of LabelOwner on the agent's sandboxes and containers: 1 to 63 letters,
	// digits, '-', '_' and '.', with a letter or digit at both ends.
	Name string
	// Unlabelled means that the agent owns exactly the objects without LabelOwner, as a kubelet
	// does. It excludes Name.
	Unlabelled bool
	// Adopts reports whether a pod without LabelOwner belongs to the owner of that Name, too. It
	// must return from memory and is called concurrently. Optional.
	Adopts func(podUID string) bool
}

var ownerName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// Check returns an error if the Owner is invalid.
func (o Owner) Check() error {
	switch {
	case o.Unlabelled && o.Name != "":
		return fmt.Errorf("Owner: Unlabelled excludes Name %q", o.Name)
	case o.Unlabelled && o.Adopts != nil:
		return errors.New("Owner: Unlabelled excludes Adopts")
	case o.Unlabelled:
		return nil
	case o.Name == "":
		return errors.New("Owner is required: set its Name, or Unlabelled for an agent that owns all pods without an owner, as a kubelet does")
	case !ownerName.MatchString(o.Name):
		return fmt.Errorf("Owner: Name %q is no label value of 1 to 63 characters", o.Name)
	}
	return nil
}

// String returns the name, or "unlabelled".
func (o Owner) String() string {
	if o.Unlabelled {
		return "unlabelled"
	}
	return o.Name
}

// Owns reports whether an object with these labels belongs to the owner.
func (o Owner) Owns(labels map[string]string) bool {
	name, labelled := labels[LabelOwner]
	switch {
	case labelled:
		return name != "" && name == o.Name
	case o.Unlabelled:
		return true
	}
	return o.Adopts != nil && o.Adopts(labels[labelPodUID])
}

// Label sets LabelOwner, or removes it without a Name.
func (o Owner) Label(labels map[string]string) {
	if o.Name == "" {
		delete(labels, LabelOwner)
		return
	}
	labels[LabelOwner] = o.Name
}

// Sandboxes returns the sandboxes of the owner.
func (o Owner) Sandboxes(list []*runtimeapi.PodSandbox) []*runtimeapi.PodSandbox {
	return owned(o, list)
}

// Containers returns the containers of the owner.
func (o Owner) Containers(list []*runtimeapi.Container) []*runtimeapi.Container {
	return owned(o, list)
}

// OwnerLock is the open file that locks an owner's name. Close ends the lock.
type OwnerLock struct {
	*os.File
	// Fallback is true if the socket's folder is not writable and the file is in os.TempDir.
	Fallback bool
}

// Lock locks the owner's name on the runtime behind an endpoint, until the file is closed or the
// process ends. Two agents with one owner would stop each other's pods. If another process has the
// lock, the error wraps ErrOwnerInUse.
//
// The lock is a file in folder, which must exist. An empty folder selects the socket's folder, as
// in /run/containerd/containerd.sock.edge.lock, and makes it if it is missing. If that folder is
// not writable, for an ordinary user or in a container, the file is in os.TempDir: then it refuses
// only agents with the same temporary folder. The lock's Fallback shows this.
func (o Owner) Lock(endpoint, folder string) (*OwnerLock, error) {
	socket, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if target, err := filepath.EvalSymlinks(socket); err == nil {
		socket = target
	}
	lock, err := o.lockIn(folder, socket)
	if errors.Is(err, fs.ErrLocked) {
		err = ErrOwnerInUse
	} else if err != nil {
		err = fmt.Errorf("%w; select a writable folder for the lock, the same one for all agents of this owner", err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock of owner %s on %s: %w", o, socket, err)
	}
	return &lock, nil
}

// lockIn locks the file in folder, or in the first writable one of the defaults.
func (o Owner) lockIn(folder, socket string) (lock OwnerLock, err error) {
	name := "." + o.String() + ".lock"
	elsewhere := strings.ReplaceAll(socket, "/", ":") + name
	if folder != "" {
		lock.File, err = fs.TryLock(filepath.Join(folder, elsewhere))
		return lock, err
	}
	if err = os.MkdirAll(filepath.Dir(socket), 0o711); err == nil {
		lock.File, err = fs.TryLock(socket + name)
	}
	if !notWritable(err) {
		return lock, err
	}
	file, second := fs.TryLock(filepath.Join(os.TempDir(), elsewhere))
	if second != nil {
		return lock, fmt.Errorf("%w; %w", err, second)
	}
	return OwnerLock{File: file, Fallback: true}, nil
}

func notWritable(err error) bool {
	return errors.Is(err, iofs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

func owned[T interface{ GetLabels() map[string]string }](o Owner, list []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(object T) bool { return !o.Owns(object.GetLabels()) })
}
