package hostpath_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/hostpath"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestContract(t *testing.T) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		host := t.TempDir()
		return volumetest.Subject{
			Layout: volume.Layout{Root: t.TempDir()},
			Open:   func() (volume.Plugin, error) { return &hostpath.Plugin{}, nil },
			Spec: func(_ *v1.Pod, name string) *volume.Spec {
				return &volume.Spec{Name: name, Inline: &v1.VolumeSource{HostPath: source(host, v1.HostPathDirectory)}}
			},
		}
	})
}
