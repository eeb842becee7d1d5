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

// Subject is a plugin under test, and what is around it. Layout, Open and Spec are
// required.
type Subject struct {
	// Layout is where the plugin has its volumes. Its root is empty at first.
	Layout volume.Layout
	// Open opens the plugin on what is there, as an agent does at its start. What was
	// opened before is not used again: its agent was killed.
	Open func() (volume.Plugin, error)
	// Spec describes a volume of a pod that the plugin supports. It may change the pod,
	// which is not seen by anybody before. Every call with the same pod and name returns
	// the same.
	Spec func(pod *v1.Pod, name string) *volume.Spec
	// Check looks at what containers would get. Nil means that it has to exist.
	Check func(m volume.Mounted) error
	// Left looks for what is left of a volume besides the folders of volume.Mount, such
	// as a mount of which the folder is gone. Nil means that there can be nothing.
	Left func(pod types.UID, name string) error
	// Halfway are the states in which a plugin that is killed may leave a volume, by
	// name: each func makes one for a volume of which there is nothing. The suite adds
	// empty folders.
	Halfway map[string]func(m volume.Mount) error
	// Fail has every Mount fail until mend is called. Nil means that none can.
	Fail func() (mend func())
}

// patience is how long a call may take, limit a rule.
const (
	patience = 10 * time.Second
	limit    = time.Minute
)

// Run tests that a plugin keeps the contract of volume.Plugin, and that of
// volume.Stager if it is one: one subtest for each rule. New is called for each, and
// ends what it starts with t.Cleanup.
func Run(t *testing.T, New func(t testing.TB) Subject) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if err := play(t.Context(), r, New(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// rule is one rule of the contract.
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
		return fmt.Errorf("the mounted volume has not exactly one of Path and Device: %+v", m)
	}
	_, err := os.Lstat(m.Path + m.Device)
	return err
}

// trial is a plugin that is tried.
type trial struct {
	Subject
	ctx    context.Context
	plugin volume.Plugin
	pods   int
}

// open opens the plugin, also as a kill of the agent and its next start.
func (t *trial) open() (err error) {
	if t.plugin, err = t.Open(); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return nil
}

// vol is a volume of a pod.
type vol struct {
	pod   *v1.Pod
	spec  *volume.Spec
	dir   string
	state string
	// staged is what the last Stage has returned.
	staged string
	// mounted is what the last Mount has returned.
	mounted *volume.Mounted
}

// newPod returns a pod that was not there before.
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

// args are those of a Mount.
func (t *trial) args(v *vol, again bool) volume.Mount {
	return volume.Mount{Pod: v.pod, Spec: v.spec, Dir: v.dir, StateDir: v.state, Staged: v.staged, Again: again}
}

// tryMount mounts a volume, and stages it before that if pods share it.
func (t *trial) tryMount(ctx context.Context, v *vol, again bool) error {
	if err := t.stage(ctx, v); err != nil {
		return err
	}
	return t.tryMountStaged(ctx, v, again)
}

// stage stages a volume if pods share it.
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
		return fmt.Errorf("mount of %v has changed the pod or the spec", v)
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

// mount mounts a volume. It must be there then.
func (t *trial) mount(v *vol) error { return t.mountAgain(v, false) }

func (t *trial) mountAgain(v *vol, again bool) error {
	if err := t.tryMount(t.ctx, v, again); err != nil {
		return err
	}
	return t.check(v)
}

func (t *trial) check(v *vol) error {
	if err := t.Check(*v.mounted); err != nil {
		return fmt.Errorf("%v is not mounted as it should be: %w", v, err)
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

// unmount unmounts a volume. Nothing of it may be there then.
func (t *trial) unmount(v *vol) error {
	if err := t.tryUnmount(t.ctx, v); err != nil {
		return err
	}
	return t.nothing(v)
}

func (t *trial) nothing(v *vol) error {
	for _, path := range []string{v.dir, v.state} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there after the unmount of %v (%w)", path, v, err)
		}
	}
	return t.Left(v.pod.UID, v.spec.Name)
}

// stager is the plugin if it shares a volume, with the volume's ID.
func (t *trial) stager(v *vol) (volume.Stager, string) {
	if s, ok := t.plugin.(volume.Stager); ok {
		if id := s.VolumeID(v.spec); id != "" {
			return s, id
		}
	}
	return nil, ""
}

// staged tells whether the plugin names a volume among those that it has staged.
func (t *trial) staged(id string) (bool, error) {
	ids, err := t.plugin.(volume.Stager).Staged(t.ctx)
	return slices.Contains(ids, id), err
}

// soon calls a method and fails if it does not return.
func soon(what string, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s did not return within %v", what, patience)
	}
}

// tree is what is in a folder: paths with modes, inodes and contents.
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
