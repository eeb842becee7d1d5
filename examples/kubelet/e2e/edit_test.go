package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// exclusive returns a pod that records an instance started while another one still runs: each
// instance owns a folder of the host and removes it half a second after SIGTERM.
func exclusive(name, image, version, folder string) *v1.Pod {
	c := shell("main", image, `trap 'sleep 0.5; rmdir /shared/lock; exit 0' TERM
mkdir /shared/lock || echo "$VERSION" >> /shared/overlap; while true; do sleep 60 & wait $!; done`)
	c.Env = []v1.EnvVar{{Name: "VERSION", Value: version}}
	pod := newPod(name, c)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(20))
	addVolume(pod, "shared", "/shared", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: folder, Type: new(v1.HostPathDirectoryOrCreate)}})
	return pod
}

// S5 and W13: an edited manifest without a uid is a new pod. It starts only after the old pod has
// ended, also after three edits in a row.
func TestEditedManifest(t *testing.T) {
	onRuntimes(t, "", func(t *testing.T, s *scene) {
		folder := filepath.Join(s.dir, "shared")
		s.writeManifest(t, "edit.yaml", exclusive("edit", s.images.Busybox, "1", folder))
		before := s.running(t, "edit")
		locked := func() error { _, err := os.Stat(filepath.Join(folder, "lock")); return err }
		wait(t, 10*time.Second, "the first instance has the folder", locked)

		s.writeManifest(t, "edit.yaml", exclusive("edit", s.images.Busybox, "2", folder))
		wait(t, 40*time.Second, "only the second version runs", func() error {
			if err := s.atMostOne("edit"); err != nil {
				t.Fatal(err)
			}
			return errors.Join(s.hasVersion("edit", "2"), s.isRunning("edit"))
		})
		after, c, err := s.container("edit", "main")
		require.NoError(t, err)
		require.NotEqual(t, before.UID, after.UID)
		require.Zero(t, c.RestartCount)
		wait(t, 10*time.Second, "the second instance has the folder and thus handles SIGTERM", locked)

		for _, version := range []string{"3", "4", "5"} {
			s.writeManifest(t, "edit.yaml", exclusive("edit", s.images.Busybox, version, folder))
			consistently(t, 150*time.Millisecond, "at most one instance", func() error { return s.atMostOne("edit") })
		}
		wait(t, 40*time.Second, "only the last version runs", func() error {
			if err := s.atMostOne("edit"); err != nil {
				t.Fatal(err)
			}
			return errors.Join(s.hasVersion("edit", "5"), s.isRunning("edit"))
		})
		require.NoFileExists(t, filepath.Join(folder, "overlap"), "instances do not overlap")
		wait(t, 20*time.Second, "one sandbox remains", func() error {
			w, err := s.runtimeState()
			if err == nil && (len(w.sandboxes) != 1 || len(w.containers) != 1) {
				err = errors.New(w.String())
			}
			return err
		})
	})
}

func (s *scene) atMostOne(name string) error {
	w, err := s.runtimeState()
	if err != nil {
		return err
	}
	if len(w.of(name).running()) > 1 {
		return fmt.Errorf("two instances run: %s", w.of(name))
	}
	return nil
}

func (s *scene) hasVersion(name, version string) error {
	p, err := s.pod(name)
	if err != nil {
		return err
	}
	want := []v1.EnvVar{{Name: "VERSION", Value: version}}
	if have := p.Spec.Containers[0].Env; !slices.Equal(have, want) {
		return fmt.Errorf("have %v, want %v", have, want)
	}
	return nil
}
