package nfs_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/mounts"
	"github.com/podwright/podwright/volume/nfs"
	"github.com/podwright/podwright/volume/volumetest"
)

func TestContract(t *testing.T) {
	volumetest.Run(t, func(t testing.TB) volumetest.Subject {
		m := &mounts.Memory{}
		return volumetest.Subject{
			Layout: volume.Layout{Root: t.TempDir()},
			Open:   func() (volume.Plugin, error) { return nfs.New(nfs.Config{Mounts: m}) },
			Spec:   func(_ *v1.Pod, name string) *volume.Spec { s := inline("s", "/x"); s.Name = name; return s },
		}
	})
}
