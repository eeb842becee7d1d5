package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/volume"
)

// Subject is a plugin under test with its environment. Layout, Open and Spec are required.
type Subject struct {
	// Layout contains the paths of the plugin's volumes. Its root is empty at first.
	Layout volume.Layout
	// Open returns a plugin that continues on the existing files, as at the start of an agent.
	// The suite then stops using the previous plugin, as after a kill of its agent.
	Open func() (volume.Plugin, error)
	// Spec returns a volume of a pod that the plugin supports. It may change the pod, which is
	// new at the first call. Calls with equal arguments return equal specs.
	Spec func(pod *v1.Pod, name string) *volume.Spec
	// Check checks the volume from a container's view. Default: the path or device exists.
	Check func(m volume.Mounted) error
	// Data returns the folder with the files of a mounted volume, into which the suite writes as
	// containers do, or "" if they cannot write. Data outside of the volume's folder in Layout, as of
	// a hostPath, must outlive Unmount. A Subject whose mounts are simulated returns the source of the
	// mount. Optional: without it, it is Mounted.Path unless that is read-only or a file.
	Data func(m volume.Mounted) string
	// Left returns an error if a volume has remains besides the folders of volume.Mount, such
	// as a mount without a folder. Optional.
	Left func(pod types.UID, name string) error
	// Halfway maps names to functions that create the remains of an interrupted Mount. The suite
	// itself tests empty folders. Optional.
	Halfway map[string]func(m volume.Mount) error
	// Fail makes each Mount fail until mend is called. Optional: without it failures are not
	// tested.
	Fail func() (mend func())
}

// callLimit bounds a call, limit bounds a rule.
const (
	callLimit = 10 * time.Second
	limit     = time.Minute
)

// Run tests the contract of volume.Plugin, and of volume.Stager if the plugin implements it,
// with one subtest per rule. New is called for each rule and must release its resources with
// t.Cleanup. A Subject without a required field fails each subtest.
func Run(t *testing.T, New func(t testing.TB) Subject) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if err := play(t.Context(), r, New(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

type rule struct {
	name string
	play func(*trial) error
}

func play(ctx context.Context, r rule, s Subject) error {
	f := fields.Of("volumetest: Subject")
	f.Required("Layout.Root", s.Layout.Root)
	f.Required("Open", s.Open)
	f.Required("Spec", s.Spec)
	fields.Default(&s.Check, exists)
	fields.Default(&s.Left, func(types.UID, string) error { return nil })
	if err := f.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &trial{Subject: s, ctx: ctx}
	if err := t.open(); err != nil {
		return err
	}
	return r.play(t)
}

func exists(m volume.Mounted) error {
	if (m.Path == "") == (m.Device == "") {
		return fmt.Errorf("the mounted volume must have exactly one of Path and Device: %+v", m)
	}
	_, err := os.Lstat(m.Path + m.Device)
	return err
}

type trial struct {
	Subject
	ctx    context.Context
	plugin volume.Plugin
	pods   int
}

// open opens the plugin. On later calls this stands for a kill and a restart of the agent.
func (t *trial) open() (err error) {
	if t.plugin, err = t.Open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return nil
}

type vol struct {
	pod     *v1.Pod
	spec    *volume.Spec
	dir     string
	state   string
	staged  string
	mounted *volume.Mounted
}

// newPod returns a pod with a new name and UID.
func (t *trial) newPod() *v1.Pod {
	t.pods++
	n := fmt.Sprintf("%04d", t.pods)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + n, UID: types.UID("00000000-0000-4000-8000-00000000" + n)}}
}

func (t *trial) volume() *vol { return t.volumeOf(t.newPod(), "data") }

func (t *trial) volumeOf(pod *v1.Pod, name string) *vol {
	return t.volumeWith(pod, t.Spec(pod, name))
}

func (t *trial) volumeWith(pod *v1.Pod, spec *volume.Spec) *vol {
	v := &vol{pod: pod, spec: spec}
	v.dir = t.Layout.Volume(pod.UID, t.plugin.Name(), spec.Name)
	if spec.Block() {
		v.dir = t.Layout.Device(pod.UID, t.plugin.Name(), spec.Name)
	}
	v.state = t.Layout.State(pod.UID, t.plugin.Name(), spec.Name)
	return v
}

func (v *vol) String() string { return "volume " + v.spec.Name + " of pod " + string(v.pod.UID) }

func (t *trial) args(v *vol, again bool) volume.Mount {
	return volume.Mount{Pod: v.pod, Spec: v.spec, Dir: v.dir, StateDir: v.state, Staged: v.staged, Again: again}
}

// tryMount stages the volume if it is shared, then mounts it.
func (t *trial) tryMount(ctx context.Context, v *vol, again bool) error {
	if err := t.stage(ctx, v); err != nil {
		return err
	}
	return t.tryMountStaged(ctx, v, again)
}

func (t *trial) stage(ctx context.Context, v *vol) (err error) {
	if s, id := t.stager(v); s != nil {
		if v.staged, err = s.Stage(ctx, volume.Stage{ID: id, Spec: v.spec}); err != nil {
			return fmt.Errorf("stage: %w", err)
		}
	}
	return nil
}

func (t *trial) tryMountStaged(ctx context.Context, v *vol, again bool) error {
	m := t.args(v, again)
	if err := os.MkdirAll(filepath.Dir(m.Dir), 0o750); err != nil {
		return err
	}
	pod, spec := v.pod.DeepCopy(), copySpec(v.spec)
	mounted, err := t.plugin.Mount(ctx, m)
	if !reflect.DeepEqual(pod, v.pod) || !reflect.DeepEqual(spec, v.spec) {
		return fmt.Errorf("mount of %v changed the pod or the spec", v)
	}
	if err != nil {
		return fmt.Errorf("mount of %v: %w", v, err)
	}
	v.mounted = &mounted
	return nil
}

func copySpec(s *volume.Spec) *volume.Spec {
	out := *s
	out.Inline, out.Persistent = s.Inline.DeepCopy(), s.Persistent.DeepCopy()
	return &out
}

func (t *trial) mount(v *vol) error { return t.mountAgain(v, false) }

func (t *trial) mountAgain(v *vol, again bool) error {
	if err := t.tryMount(t.ctx, v, again); err != nil {
		return err
	}
	return t.check(v)
}

func (t *trial) check(v *vol) error {
	if err := t.Check(*v.mounted); err != nil {
		return fmt.Errorf("check of %v: %w", v, err)
	}
	return nil
}

func (t *trial) tryUnmount(ctx context.Context, v *vol) error {
	err := t.plugin.Unmount(ctx, volume.Unmount{
		Pod: v.pod.UID, Name: v.spec.Name, Dir: v.dir, StateDir: v.state, Block: v.spec.Block(),
	})
	if err != nil {
		return fmt.Errorf("unmount of %v: %w", v, err)
	}
	return nil
}

// unmount unmounts a volume and checks that it has no remains.
func (t *trial) unmount(v *vol) error {
	if err := t.tryUnmount(t.ctx, v); err != nil {
		return err
	}
	return t.noRemains(v)
}

// cause returns an error in brackets, for the end of a message, or "" without one.
func cause(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (%v)", err)
}

func (t *trial) noRemains(v *vol) error {
	for _, path := range []string{v.dir, v.state} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists after the unmount of %v%s", path, v, cause(err))
		}
	}
	return t.Left(v.pod.UID, v.spec.Name)
}

// stager returns the plugin and the volume's id if the volume is shared.
func (t *trial) stager(v *vol) (volume.Stager, string) {
	if s, ok := t.plugin.(volume.Stager); ok {
		if id := s.VolumeID(v.spec); id != "" {
			return s, id
		}
	}
	return nil, ""
}

// staged reports whether Staged lists the id.
func (t *trial) staged(id string) (bool, error) {
	ids, err := t.plugin.(volume.Stager).Staged(t.ctx)
	return slices.Contains(ids, id), err
}

// returnsInTime returns an error if f does not return within callLimit.
func returnsInTime(what string, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(callLimit):
		return fmt.Errorf("%s did not return within %v", what, callLimit)
	}
}

// tree returns the modes and contents of all files in a folder by path.
func tree(root string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += string(data)
		}
		out[path] = text
		return nil
	})
	return out, err
}
