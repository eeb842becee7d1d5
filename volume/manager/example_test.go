package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/manager"
	"github.com/podwright/podwright/volume/mounts"
)

// with runs a manager with a plugin for emptyDir volumes during f.
func with(m mounts.Mounter, f func(m *manager.Manager, root string)) {
	root, err := os.MkdirTemp("", "volumes")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	plugins := []volume.Plugin{emptydir.New(emptydir.Config{Mounts: m})}
	volumes, err := manager.New(manager.Config{Plugins: plugins, Layout: volume.Layout{Root: root}})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- volumes.Run(ctx) }()
	f(volumes, root)
	cancel()
	if err := <-done; err != nil {
		panic(err)
	}
}

func web() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1234"},
		Spec: v1.PodSpec{
			Volumes:    []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
			Containers: []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
		},
	}
}

func Example() {
	with(&mounts.Memory{}, func(m *manager.Manager, root string) {
		ctx := context.Background()
		fmt.Println(m.Prepare(ctx, web()))
		mounted, err := m.Volume(ctx, web(), "cache")
		path, _ := filepath.Rel(root, mounted.Path)
		fmt.Println(path, err)
		fmt.Println(m.Release(ctx, "1234"))
		left, err := m.Leftovers(ctx)
		fmt.Println(left, err)
	})
	// Output:
	// <nil>
	// pods/1234/volumes/kubernetes.io~empty-dir/cache <nil>
	// <nil>
	// [] <nil>
}

func ExampleNotReadyError() {
	full := func(context.Context, string, string) error { return errors.New("no space left on device") }
	with(&mounts.Memory{Fault: full}, func(m *manager.Manager, _ string) {
		err := m.Prepare(context.Background(), web())
		text, _, _ := strings.Cut(err.Error(), ", next try at ")
		fmt.Println(text)
		var notReady *manager.NotReadyError
		fmt.Println(errors.As(err, &notReady), notReady.EventReason(), !notReady.NotBefore().IsZero())
	})
	// Output:
	// pod default/web (1234): cannot mount volumes yet: cache: Uncertain, waits for the next try to mount, last error: emptyDir: no space left on device
	// true FailedMount true
}
