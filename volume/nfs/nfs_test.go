package nfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/nfs"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func inline(server, path string) *volume.Spec {
	return &volume.Spec{Name: "v", Inline: &v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: path}}}
}

func TestMount(t *testing.T) {
	m := &mounts.Memory{}
	p := nfs.New(nfs.Config{Mounts: m})
	dir := filepath.Join(t.TempDir(), "v")
	spec := &volume.Spec{Name: "pv", ReadOnly: true, Persistent: &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		MountOptions:           []string{"hard", "nfsvers=4.2"},
		PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "2001:db8::1", Path: "/export"}},
	}}}
	require.True(t, p.Supports(spec))
	for range 2 {
		got, err := p.Mount(t.Context(), volume.Mount{Spec: spec, Dir: dir})
		require.NoError(t, err)
		require.Equal(t, volume.Mounted{Path: dir, ReadOnly: true}, got)
	}
	points, err := m.Below(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, []mounts.Point{{
		Path: dir, FSType: "nfs", Source: "[2001:db8::1]:/export", Options: "hard,nfsvers=4.2,ro", ReadOnly: true,
	}}, points)
	for range 2 {
		require.NoError(t, p.Unmount(t.Context(), volume.Unmount{Dir: dir}))
		require.NoDirExists(t, dir)
	}
}

// Unmount does not delete files of a folder that is no mount point.
func TestUnmountDeletesNothing(t *testing.T) {
	p := nfs.New(nfs.Config{Mounts: &mounts.Memory{}})
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	require.Error(t, p.Unmount(t.Context(), volume.Unmount{Dir: dir}))
	require.FileExists(t, precious)
}

func TestInvalidSourcesAreRejected(t *testing.T) {
	p := nfs.New(nfs.Config{Mounts: &mounts.Memory{}})
	dir := filepath.Join(t.TempDir(), "v")
	for want, spec := range map[string]*volume.Spec{
		`server: ""`:      inline("", "/x"),
		`server: "-o"`:    inline("-o", "/x"),
		`server: "a b"`:   inline("a b", "/x"),
		`path: "x" is no`: inline("s", "x"),
	} {
		_, err := p.Mount(t.Context(), volume.Mount{Spec: spec, Dir: dir})
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, volume.ErrUncertain)
		require.NoDirExists(t, dir)
	}
	require.False(t, p.Supports(&volume.Spec{Inline: &v1.VolumeSource{}}))
}

// Issue 13, point 8: with an unreachable server a mount ends with its context, and the volume
// is unmounted by force after a minute, independent of the number of attempts.
func TestServerThatHangs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	synctest.Test(t, func(t *testing.T) {
		hangs := ""
		m := &mounts.Memory{Fault: func(ctx context.Context, call, _ string) error {
			if call != hangs {
				return nil
			}
			<-ctx.Done()
			return fmt.Errorf("%w: %w", mounts.ErrLeftBehind, ctx.Err())
		}}
		p := nfs.New(nfs.Config{Mounts: m})
		ctx := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		hangs = "Mount"
		_, err := p.Mount(ctx(time.Second), volume.Mount{Spec: inline("s", "/x"), Dir: dir})
		require.ErrorIs(t, err, volume.ErrUncertain)
		require.ErrorIs(t, err, mounts.ErrLeftBehind)
		hangs = ""
		_, err = p.Mount(ctx(time.Second), volume.Mount{Spec: inline("s", "/x"), Dir: dir})
		require.NoError(t, err)

		hangs = "Unmount"
		begun := time.Now()
		for range 2 {
			require.ErrorIs(t, p.Unmount(ctx(25*time.Second), volume.Unmount{Dir: dir}), context.DeadlineExceeded)
		}
		require.NoError(t, p.Unmount(ctx(25*time.Second), volume.Unmount{Dir: dir}))
		require.Equal(t, time.Minute, time.Since(begun))
		require.Contains(t, m.Calls(), "Detach "+dir)
		require.NoDirExists(t, dir)
	})
}

// A mount in use is not detached within the first minute.
func TestBusy(t *testing.T) {
	busy := errors.New("busy")
	m := &mounts.Memory{Fault: func(_ context.Context, call, _ string) error {
		if call == "Unmount" {
			return busy
		}
		return nil
	}}
	p := nfs.New(nfs.Config{Mounts: m})
	dir := filepath.Join(t.TempDir(), "v")
	_, err := p.Mount(t.Context(), volume.Mount{Spec: inline("s", "/x"), Dir: dir})
	require.NoError(t, err)
	require.ErrorIs(t, p.Unmount(t.Context(), volume.Unmount{Dir: dir}), busy)
	require.NotContains(t, m.Calls(), "Detach "+dir)
}

func ExamplePlugin() {
	root, err := os.MkdirTemp("", "pod")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	m := &mounts.Memory{} // an agent uses the default
	p := nfs.New(nfs.Config{Mounts: m})
	_, err = p.Mount(context.Background(), volume.Mount{Spec: inline("files.example", "/export"), Dir: filepath.Join(root, "v")})
	fmt.Println(err)
	points, err := m.Below(context.Background(), root)
	fmt.Println(points[0].Source, err)
	// Output:
	// <nil>
	// files.example:/export <nil>
}

func TestContract(t *testing.T) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		m := &mounts.Memory{}
		return volumetest.Subject{
			Layout: volume.Layout{Root: t.TempDir()},
			Open:   func() (volume.Plugin, error) { return nfs.New(nfs.Config{Mounts: m}), nil },
			Spec:   func(_ *v1.Pod, name string) *volume.Spec { s := inline("s", "/x"); s.Name = name; return s },
			Data:   func(volume.Mounted) string { return "" }, // no server
		}
	})
}
