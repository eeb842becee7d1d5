package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podwright/podwright/examples/testbed/tb"
)

// onSmallDisk is withObjects with a root folder that is a file system of a few megabytes.
func onSmallDisk(t *testing.T, test func(t *testing.T, s *volumeScene)) {
	images := tb.Images(t)
	program(t)
	for _, rt := range tb.Turns(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			require.NoError(t, unix.Mount("tmpfs", root, "tmpfs", 0, "size=8m"))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
			s := &volumeScene{scene: newScene(t, rt, images, options{endpoint: rt.Endpoint})}
			s.root, s.objects = root, filepath.Join(s.dir, "objects")
			s.args = append(s.args, "--root-dir="+s.root, "--objects-dir="+s.objects)
			s.start(t)
			test(t, s)
		})
	}
}

// fill leaves nothing of the disk of the root folder, until the function that is returned
// is called.
func (s *volumeScene) fill(t *testing.T) (end func()) {
	t.Helper()
	file := filepath.Join(s.root, "filler")
	f, err := os.Create(file)
	require.NoError(t, err)
	for piece := make([]byte, 4096); err == nil; {
		_, err = f.Write(piece)
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(file)) }
}

// A disk that is full, or cannot be written to any more, in the middle of a change of a
// config map leaves containers the version that they have, whole. It is told why, pods
// beside it notice nothing, and the change arrives once there is room.
func TestDiskThatTakesNothing(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, s *volumeScene) {
		const version = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: v%[1]d\n  b: v%[1]d\n  large: %[2]s\n"
		put := func(n int) {
			s.put(t, "configmaps/default/big.yaml", fmt.Sprintf(version, n, strings.Repeat("x", 200<<10)))
		}
		s.put(t, "configmaps/default/conf.yaml", conf)
		s.put(t, "secrets/default/pass.yaml", pass)
		put(1)
		s.place(t, "bystander.yaml", bystander(s))
		s.place(t, "user.yaml", s.withVolume("user", configMap("big")))
		steady, user := s.running(t, "bystander"), s.running(t, "user")
		s.shows(t, "bystander", "touch /disk/x && echo yes", "yes")
		const show = "cat /v/a /v/b; wc -c </v/large"
		s.shows(t, "user", show, "v1v1204800")

		for n, c := range []struct {
			spoil func(*testing.T) (end func())
			why   string
		}{{s.fill, "no space left"}, {s.makeReadOnly, "read-only"}} {
			end := c.spoil(t)
			put(n + 2)
			wait(t, soonEnough, "it is told why the change does not arrive", func() error {
				v, err := s.volume("user", "v")
				if err == nil && (!v.Ready || !strings.Contains(v.LastError, c.why)) {
					err = fmt.Errorf("have %+v", v)
				}
				return err
			})
			hold(t, 3*time.Second, "the old version stays", func() error {
				have, err := s.run("user", show)
				if want := fmt.Sprintf("v%[1]dv%[1]d204800", n+1); err == nil && have != want {
					err = fmt.Errorf("have %q", have)
				}
				return err
			})
			end()
			wait(t, soonEnough, "the change arrives", func() error {
				have, err := s.run("user", show)
				if want := fmt.Sprintf("v%[1]dv%[1]d204800", n+2); err == nil && have != want {
					err = fmt.Errorf("have %q", have)
				}
				return err
			})
			wait(t, soonEnough, "no other version is left", func() error {
				found, err := filepath.Glob(filepath.Join(s.root, "pods", string(user.UID), "volumes/kubernetes.io~configmap/v/..2*"))
				if err == nil && len(found) != 1 {
					err = fmt.Errorf("have %v", found)
				}
				return err
			})
		}
		require.NoError(t, errors.Join(s.untouched(steady, "bystander"), s.untouched(user, "user")))
		wait(t, soonEnough, "healthz recovers", s.healthy)
	})
}
