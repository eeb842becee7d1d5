package projected_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/emptydir"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/objects"
	"github.com/podwright/podwright/volume/projected"
)

func Example() {
	root, _ := os.MkdirTemp("", "kubelet")
	defer os.RemoveAll(root)
	api := &objects.Memory{}
	api.PutConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Data: map[string]string{"colour": "blue"}})
	plugins, _ := projected.New(projected.Config{
		Backing:    emptydir.New(emptydir.Config{Mounts: &mounts.Memory{}}), // an agent leaves Mounts empty
		ConfigMaps: api,
	})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "shop"}}
	mode := int32(0o644)
	spec := &volume.Spec{Name: "config", Inline: &v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "web"}, DefaultMode: &mode,
	}}}
	layout := volume.Layout{Root: root}
	for _, plugin := range plugins {
		if !plugin.Supports(spec) {
			continue
		}
		dir := layout.Volume(pod.UID, plugin.Name(), spec.Name)
		_ = os.MkdirAll(filepath.Dir(dir), 0o750) // a manager creates this folder
		mounted, err := plugin.Mount(context.Background(), volume.Mount{
			Pod: pod, Spec: spec, Dir: dir, StateDir: layout.State(pod.UID, plugin.Name(), spec.Name),
		})
		text, _ := os.ReadFile(filepath.Join(mounted.Path, "colour"))
		fmt.Println(plugin.Name(), string(text), err)
		fmt.Println(plugin.(volume.Dependent).Objects(pod, spec))
	}
	// Output:
	// kubernetes.io/configmap blue <nil>
	// [ConfigMap shop/web]
}
