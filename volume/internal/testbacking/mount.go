package testbacking

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

// MountOf is what a plugin gets to mount a volume of a pod below a folder of the test.
func MountOf(t testing.TB, plugin string, pod *v1.Pod, name string, source v1.VolumeSource) volume.Mount {
	t.Helper()
	l := volume.Layout{Root: t.TempDir()}
	m := volume.Mount{
		Pod: pod, Spec: &volume.Spec{Name: name, Inline: &source},
		Dir: l.Volume(pod.UID, plugin, name), StateDir: l.State(pod.UID, plugin, name),
	}
	if err := os.MkdirAll(filepath.Dir(m.Dir), 0o750); err != nil {
		t.Fatal(err)
	}
	return m
}

// Files are the files of a volume with their contents and modes, "0644 text".
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	at := filepath.Join(dir, "..data")
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(real, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(real, path)
		out[name] = fmt.Sprintf("%04o %s", info.Mode().Perm(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
