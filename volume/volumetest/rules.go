package volumetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/podwright/podwright/internal/difference"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/orders"
	"github.com/podwright/podwright/volume"
)

var rules = []rule{
	{"methods without I/O are pure", pure},
	{"Mount creates the returned path, Unmount leaves no files", mountAndUnmount},
	{"Mount is idempotent", mountTwice},
	{"Unmount is idempotent", unmountTwice},
	{"Unmount succeeds without a Mount", unmountNothing},
	{"Mount succeeds after Unmount", mountAfterUnmount},
	{"Unmount succeeds after a kill between any two calls", killedBetween},
	{"Mount completes a partial mount, Unmount removes it", partialMount},
	{"other volumes and files stay unchanged", neighbours},
	{"volumes are mounted concurrently", parallel},
	{"calls return if their context is done", ended},
	{"a failed Mount can be repeated and unmounted", fails},
	{"a failed remount keeps the mounted volume", failsAgain},
	{"a repeated Mount keeps the data of containers", remountKeepsData},
	{"Unmount keeps data outside of the volume's folder", unmountKeepsOthersData},
	{"Stage is idempotent, and Staged lists the volume until Unstage", stages},
	{"Unstage succeeds without a Stage", unstageNothing},
	{"pods share one staged volume", shares},
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trial) mounts(v *vol) func() error   { return func() error { return t.mount(v) } }
func (t *trial) unmounts(v *vol) func() error { return func() error { return t.unmount(v) } }

func pure(t *trial) error {
	v := t.volume()
	name := t.plugin.Name()
	if name != t.plugin.Name() {
		return fmt.Errorf("plugin name %q: must be constant", name)
	}
	if err := fs.CheckName("plugin name", volume.Escape(name)); err != nil {
		return err
	}
	if back := volume.Unescape(volume.Escape(name)); back != name {
		return fmt.Errorf("plugin name %q: its folder is read as that of plugin %q; must be without \"~\"", name, back)
	}
	if err := v.spec.Check(); err != nil {
		return err
	}
	if err := errors.Join(t.mount(v), t.unmount(v)); err != nil {
		return err
	}
	pod, spec := v.pod.DeepCopy(), copySpec(v.spec)
	var before []any
	for range 3 {
		result := []any{t.plugin.Supports(v.spec)}
		if p, ok := t.plugin.(volume.Remounter); ok {
			result = append(result, p.Remounts(v.spec))
		}
		if p, ok := t.plugin.(volume.Dependent); ok {
			result = append(result, p.Objects(v.pod, v.spec))
		}
		if p, ok := t.plugin.(volume.Stager); ok {
			result = append(result, p.VolumeID(v.spec))
		}
		switch {
		case result[0] != true:
			return errors.New("Supports returned false")
		case before != nil && !reflect.DeepEqual(before, result):
			return fmt.Errorf("repeated calls returned %v, then %v", before, result)
		case !reflect.DeepEqual(pod, v.pod) || !reflect.DeepEqual(spec, v.spec):
			return errors.New("a method changed the pod or the spec")
		}
		before = result
	}
	return nil
}

func mountAndUnmount(t *trial) error {
	v := t.volume()
	write := func() error { _, err := t.write(v); return err }
	return inOrder(t.mounts(v), write, t.unmounts(v), func() error { return t.noRemains(v) })
}

// mountTwice also checks that a container with the first mount sees the second.
func mountTwice(t *trial) error {
	v := t.volume()
	if err := t.mount(v); err != nil {
		return err
	}
	first := *v.mounted
	for _, again := range []bool{true, false} {
		before, err := os.Stat(first.Path + first.Device)
		if err != nil {
			return err
		}
		if err := t.mountAgain(v, again); err != nil {
			return err
		}
		after, err := os.Stat(first.Path + first.Device)
		switch {
		case err != nil:
			return err
		case v.mounted.Path != first.Path || v.mounted.Device != first.Device:
			return fmt.Errorf("a repeated call of Mount returned another result:\n%s", difference.Of(*v.mounted, first))
		case !os.SameFile(before, after):
			return errors.New("the repeated Mount created another file or folder: running containers do not see it")
		}
		if err := t.open(); err != nil {
			return err
		}
	}
	return t.unmount(v)
}

func unmountTwice(t *trial) error {
	v := t.volume()
	return inOrder(t.mounts(v), t.unmounts(v), t.unmounts(v), t.open, t.unmounts(v))
}

func unmountNothing(t *trial) error { return t.unmount(t.volume()) }

func mountAfterUnmount(t *trial) error {
	v := t.volume()
	return inOrder(t.mounts(v), t.unmounts(v), t.mounts(v), t.unmounts(v), t.open, t.mounts(v), t.unmounts(v))
}

// killedBetween runs every sequence of up to four steps.
func killedBetween(t *trial) error {
	cancelledCtx, cancel := context.WithCancel(t.ctx)
	cancel()
	steps := []orders.Step[*vol]{
		{Name: "mount", Play: t.mount},
		{Name: "unmount", Play: t.unmount},
		{Name: "kill", Play: func(*vol) error { return t.open() }, Kill: true},
		// With a context that has ended, a call may do all, a part, or none of its work.
		{Name: "mount, cancelled", Play: func(v *vol) error { _ = t.tryMount(cancelledCtx, v, false); return nil }},
		{Name: "unmount, cancelled", Play: func(v *vol) error {
			if t.tryUnmount(cancelledCtx, v) == nil {
				return t.noRemains(v)
			}
			return nil
		}},
	}
	return orders.Each(steps, 4, t.volume, func(v *vol, played string) error {
		if err := inOrder(t.open, t.unmounts(v)); err != nil {
			return fmt.Errorf("%s; kill; unmount: %w", played, err)
		}
		return nil
	})
}

func partialMount(t *trial) error {
	probe := t.volume()
	if err := t.mount(probe); err != nil {
		return err
	}
	states := map[string]func(volume.Mount) error{}
	// Only remains that Mount can create are tested.
	if info, err := os.Lstat(probe.dir); err == nil && info.IsDir() {
		states["an empty folder"] = func(m volume.Mount) error { return os.MkdirAll(m.Dir, 0o750) }
	}
	if info, err := os.Lstat(probe.state); err == nil && info.IsDir() {
		states["an empty state folder"] = func(m volume.Mount) error { return os.MkdirAll(m.StateDir, 0o750) }
	}
	for name, f := range t.Halfway {
		states[name] = f
	}
	for name, create := range states {
		mended, released := t.volume(), t.volume()
		err := inOrder(
			func() error { return create(t.args(mended, false)) }, t.open,
			t.mounts(mended), t.unmounts(mended),
			func() error { return create(t.args(released, false)) }, t.open,
			t.unmounts(released),
		)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return t.unmount(probe)
}

// neighbours checks that other volumes, other pods' volumes and other files stay unchanged.
func neighbours(t *trial) error {
	pod := t.newPod()
	v, sibling := t.volumeOf(pod, "data"), t.volumeOf(pod, "data-2")
	stranger := t.volume()
	if err := errors.Join(t.mount(sibling), t.mount(stranger)); err != nil {
		return err
	}
	precious := []string{
		filepath.Join(filepath.Dir(v.dir), "precious"),
		filepath.Join(t.Layout.Volumes(pod.UID), "example.com~other", "data", "file"),
		filepath.Join(t.Layout.Pod(pod.UID), "containers", "file"),
	}
	for _, file := range precious {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, []byte("precious"), 0o600)); err != nil {
			return err
		}
	}
	roots := []string{sibling.dir, stranger.dir}
	before := make([]map[string]string, len(roots))
	for i, root := range roots {
		before[i], _ = tree(root)
	}
	return inOrder(
		t.mounts(v), t.mounts(v), t.unmounts(v), t.unmounts(v), t.open, t.unmounts(v),
		func() error {
			for i, root := range roots {
				if after, _ := tree(root); !reflect.DeepEqual(before[i], after) {
					return fmt.Errorf("%s: the content changed from %v to %v", root, before[i], after)
				}
			}
			for _, file := range precious {
				if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
					return fmt.Errorf("%s: the content is now %q%s", file, data, cause(err))
				}
			}
			return errors.Join(t.check(sibling), t.check(stranger))
		},
		t.unmounts(sibling), t.unmounts(stranger),
	)
}

// parallel mounts volumes of different pods. Shared volumes are staged once before.
func parallel(t *trial) error {
	const pods, rounds = 8, 3
	vols, firsts := make([]*vol, pods), map[string]*vol{}
	for i := range vols {
		vols[i] = t.volume()
		if _, id := t.stager(vols[i]); firsts[id] == nil {
			firsts[id] = vols[i]
		}
	}
	err := inParallel(slices.Collect(maps.Values(firsts)), func(v *vol) error { return t.stage(t.ctx, v) })
	if err != nil {
		return err
	}
	for _, v := range vols {
		_, id := t.stager(v)
		v.staged = firsts[id].staged
	}
	return inParallel(vols, func(v *vol) error {
		for range rounds {
			err := t.tryMountStaged(t.ctx, v, false)
			if err == nil {
				err = inOrder(func() error { return t.check(v) }, t.unmounts(v))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func inParallel(vols []*vol, do func(*vol) error) error {
	errs := make([]error, len(vols))
	var wg sync.WaitGroup
	for i, v := range vols {
		wg.Go(func() { errs[i] = do(v) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func ended(t *trial) error {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	v := t.volume()
	// The plugin may complete the call or fail; it must return.
	if err := returnsInTime("mount", func() { _ = t.tryMount(ctx, v, false) }); err != nil {
		return err
	}
	if err := returnsInTime("unmount", func() { _ = t.tryUnmount(ctx, v) }); err != nil {
		return err
	}
	return t.unmount(v)
}

func fails(t *trial) error {
	if t.Fail == nil {
		return nil
	}
	v := t.volume()
	fail := func() error {
		mend := t.Fail()
		defer mend()
		if t.tryMount(t.ctx, v, false) == nil {
			return errors.New("Mount succeeded despite Fail")
		}
		return nil
	}
	return inOrder(fail, t.mounts(v), t.unmounts(v), fail, t.open, t.unmounts(v))
}

func failsAgain(t *trial) error {
	if t.Fail == nil {
		return nil
	}
	v := t.volume()
	return inOrder(t.mounts(v), func() error {
		if _, err := t.write(v); err != nil {
			return err
		}
		before, err := tree(v.dir)
		mend := t.Fail()
		failed := t.tryMount(t.ctx, v, true)
		mend()
		if failed == nil {
			return nil // Mount had no work, so it could not fail
		}
		after, afterErr := tree(v.dir)
		if !reflect.DeepEqual(before, after) || (err == nil) != (afterErr == nil) {
			return fmt.Errorf("the failed Mount changed the content from %v to %v", before, after)
		}
		return t.check(v)
	}, t.unmounts(v))
}

func stages(t *trial) error {
	v := t.volume()
	s, id := t.stager(v)
	if s == nil {
		return nil
	}
	isListed := func(want bool) func() error {
		return func() error {
			if is, err := t.staged(id); err != nil || is != want {
				return fmt.Errorf("Staged lists %s: %v, want %v%s", id, is, want, cause(err))
			}
			return nil
		}
	}
	var paths []string
	stage := func() error {
		path, err := t.plugin.(volume.Stager).Stage(t.ctx, volume.Stage{ID: id, Spec: v.spec})
		if paths = append(paths, path); path != paths[0] {
			return fmt.Errorf("repeated calls of Stage returned %s, then %s", paths[0], path)
		}
		return err
	}
	unstage := func() error { return t.plugin.(volume.Stager).Unstage(t.ctx, id) }
	return inOrder(
		isListed(false), stage, isListed(true), stage, t.open, isListed(true), stage, unstage, isListed(false), unstage,
		stage, t.mounts(v), t.open, isListed(true),
		func() error {
			if o, ok := t.plugin.(volume.Identifier); ok {
				if of, err := o.VolumeIDOf(v.dir); err != nil || of != id {
					return fmt.Errorf("VolumeIDOf(%s) is %q, want %q%s", v.dir, of, id, cause(err))
				}
			}
			return nil
		},
		t.unmounts(v), unstage, t.open, isListed(false), unstage,
	)
}

func unstageNothing(t *trial) error {
	if s, id := t.stager(t.volume()); s != nil {
		return s.Unstage(t.ctx, id)
	}
	return nil
}

func shares(t *trial) error {
	first := t.volume()
	s, id := t.stager(first)
	if s == nil {
		return nil
	}
	second := t.volumeWith(t.newPod(), copySpec(first.spec))
	if _, other := t.stager(second); other != id {
		return fmt.Errorf("one volume has the IDs %q and %q", id, other)
	}
	return inOrder(
		t.mounts(first), t.mounts(second), t.unmounts(first),
		func() error { return t.check(second) },
		t.unmounts(second), func() error { return s.Unstage(t.ctx, id) },
	)
}
