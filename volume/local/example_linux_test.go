package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/local"
	"github.com/podwright/podwright/volume/mounts"
)

func ExamplePlugin() {
	root, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	ctx, m := context.Background(), &mounts.Memory{} // an agent uses the default
	p, err := local.New(local.Config{Layout: volume.Layout{Root: root}, Mounts: m})
	if err != nil {
		panic(err)
	}
	disk := filepath.Join(root, "disk") // for example /mnt/disks/ssd1
	if err := os.Mkdir(disk, 0o755); err != nil {
		panic(err)
	}
	spec := &volume.Spec{Name: "ssd1", Persistent: &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "ssd1"},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}}},
	}}
	staged, err := p.Stage(ctx, volume.Stage{ID: p.VolumeID(spec), Spec: spec})
	fmt.Println(filepath.Base(staged), err)
	_, err = p.Mount(ctx, volume.Mount{Spec: spec, Dir: filepath.Join(root, "v"), Staged: staged})
	fmt.Println(err)
	points, err := m.Below(ctx, root)
	fmt.Println(len(points), filepath.Base(points[0].Path), err)
	// Output:
	// disk <nil>
	// <nil>
	// 1 v <nil>
}
