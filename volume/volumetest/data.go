package volumetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// usersFiles are the names of the files, folders and links that a container creates in a volume.
var usersFiles = []string{"volumetest-file", "volumetest-folder", "volumetest-link"}

// data returns the folder with the files of a mounted volume, or "" if containers cannot write there.
func (t *trial) data(v *vol) string {
	if t.Data != nil {
		return t.Data(*v.mounted)
	}
	info, err := os.Stat(v.mounted.Path)
	if v.mounted.ReadOnly || v.mounted.Path == "" || err != nil || !info.IsDir() {
		return ""
	}
	return v.mounted.Path
}

// write writes into a mounted volume as a container does. It returns the written files, or nil if the
// volume is not writable.
func (t *trial) write(v *vol) (*written, error) {
	w := &written{dir: t.data(v), outside: filepath.Join(t.Layout.Root, "volumetest-outside")}
	if w.dir == "" {
		return nil, nil
	}
	file, folder, link := filepath.Join(w.dir, usersFiles[0]), filepath.Join(w.dir, usersFiles[1]), filepath.Join(w.dir, usersFiles[2])
	err := errors.Join(
		os.WriteFile(file, []byte("data of "+v.String()), 0o640),
		os.MkdirAll(filepath.Join(folder, "empty"), 0o750),
		os.WriteFile(filepath.Join(folder, "file"), []byte("data"), 0o600),
		os.MkdirAll(w.outside, 0o750),
		os.WriteFile(filepath.Join(w.outside, "file"), []byte("outside"), 0o600),
	)
	if err == nil {
		_ = os.Remove(link) // of an earlier volume on the same folder
		err = os.Symlink(w.outside, link)
	}
	if err != nil {
		return nil, fmt.Errorf("write into %v as a container: %w", v, err)
	}
	w.files = w.read()
	w.outlives = w.dir != v.dir && !strings.HasPrefix(w.dir, v.dir+"/")
	return w, nil
}

// written are the files of a container in a volume.
type written struct {
	// dir is the folder of the data, outside the target of a link in it.
	dir, outside string
	files        map[string]string
	// outlives is true if the data is not in the volume's folder of the pod, and stays after Unmount.
	outlives bool
}

// read returns the types and contents of the files by path.
func (w *written) read() map[string]string {
	out := map[string]string{}
	for _, name := range usersFiles {
		files, _ := tree(filepath.Join(w.dir, name)) // a missing file is missing in the result
		for path, text := range files {
			target, _ := os.Readlink(path)
			out[path] = text[:1] + text[len("drwxrwxrwx"):] + target
		}
	}
	data, err := os.ReadFile(filepath.Join(w.outside, "file"))
	if err == nil {
		out[w.outside] = string(data)
	}
	return out
}

// unchanged returns an error if a file has changed after a step.
func (w *written) unchanged(step string) error {
	if after := w.read(); !reflect.DeepEqual(w.files, after) {
		return fmt.Errorf("after %s the files of a container in %s have changed from %v to %v", step, w.dir, w.files, after)
	}
	return nil
}

// remountKeepsData mounts a volume with data again, by the same agent and by the next ones.
func remountKeepsData(t *trial) error {
	v := t.volume()
	if err := t.mount(v); err != nil {
		return err
	}
	w, err := t.write(v)
	if w == nil || err != nil {
		return errors.Join(err, t.unmount(v))
	}
	for _, again := range []bool{true, false} {
		err := inOrder(
			func() error { return t.mountAgain(v, again) }, func() error { return w.unchanged("a repeated Mount") },
			t.open,
			func() error { return t.mountAgain(v, again) }, func() error { return w.unchanged("a Mount of the next agent") },
		)
		if err != nil {
			return err
		}
	}
	return t.unmount(v)
}

// unmountKeepsOthersData unmounts a volume with data. Data in the volume's own folder is deleted, all
// else stays, also for a second pod with the same data.
func unmountKeepsOthersData(t *trial) error {
	v := t.volume()
	if err := t.mount(v); err != nil {
		return err
	}
	w, err := t.write(v)
	if w == nil || err != nil {
		return errors.Join(err, t.unmount(v))
	}
	if !w.outlives {
		if err := t.unmount(v); err != nil {
			return err
		}
		if data, err := os.ReadFile(filepath.Join(w.outside, "file")); err != nil || string(data) != "outside" {
			return fmt.Errorf("Unmount followed a link of a container to %s: its file is now %q%s", w.outside, data, cause(err))
		}
		return nil
	}
	other := t.volumeWith(t.newPod(), copySpec(v.spec))
	unchanged := func(step string) func() error { return func() error { return w.unchanged(step) } }
	return inOrder(
		t.mounts(other), unchanged("a Mount for another pod"), t.unmounts(other), unchanged("the Unmount for another pod"),
		t.open, t.unmounts(v), unchanged("Unmount"), t.unmounts(v), unchanged("a repeated Unmount"),
	)
}
