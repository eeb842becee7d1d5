package csi_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/volume"
	"github.com/podwright/podwright/volume/csi"
	"github.com/podwright/podwright/volume/mounts"
)

// byLevel returns labels with the level of the SELinux options.
type byLevel struct{}

func (byLevel) FileLabel(o *v1.SELinuxOptions) (string, error) {
	if o == nil || o.Level == "" {
		return "", nil
	}
	return "system_u:object_r:container_file_t:" + o.Level, nil
}

// atLevel returns a pod with an SELinux level and a ReadWriteOncePod claim.
func atLevel(uid types.UID, level string) *v1.Pod {
	p := uses(uid, "own")
	p.Spec.SecurityContext = &v1.PodSecurityContext{SELinuxOptions: &v1.SELinuxOptions{Level: level}}
	return p
}

func withSELinux(can bool) func(a *agent) {
	return func(a *agent) {
		withSecrets(a)
		spec := both
		spec.SELinuxMount = &can
		a.cfg.SELinux, a.fixture.cfg.SELinux = byLevel{}, true
		a.fixture.cfg.CSIDrivers, a.fixture.cfg.Mounts = spec, mounted{&mounts.Memory{}, table{"/": "rw,seclabel"}}
	}
}

type table map[string]string

// mounted lists the mounts of a table.
type mounted struct {
	*mounts.Memory
	table table
}

func (m mounted) Below(context.Context, string) (out []mounts.Point, err error) {
	for path, options := range m.table {
		out = append(out, mounts.Point{Path: path, Options: options})
	}
	return out, nil
}

// A volume for one pod at a time is mounted with the pod's label. For the next pod with a
// different label it is staged again, also after a kill -9 that lost the label.
// manager.TestNextOfLabels has all cases.
func TestVolumeWithALabel(t *testing.T) {
	inAgent(t, func(a *agent) {
		require.NoError(t, a.prepare(atLevel("1", "s0:c1,c2")))
		flag := `context="system_u:object_r:container_file_t:s0:c1,c2"`
		require.Contains(t, a.fake.stage.Capability.MountFlags, flag)
		require.Contains(t, a.fake.publish.Capability.MountFlags, flag)
		at, err := a.Volume(t.Context(), atLevel("1", ""), "v")
		require.NoError(t, err)
		require.False(t, at.Relabel, "all files have the label")

		a.again()
		a.log.take()
		require.NoError(t, a.release("1"))
		require.NoError(t, a.prepare(atLevel("2", "s0:c3")))
		want := []string{"sub paths of 1", "NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"}
		require.Equal(t, want, a.log.take())
		require.Contains(t, a.fake.stage.Capability.MountFlags, `context="system_u:object_r:container_file_t:s0:c3"`)
		require.NoError(t, a.release("2"))
		synctest.Wait()
		require.Empty(t, tree(t, a.layout.Root))
	}, withSELinux(true))
}

// Without seLinuxMount, volumes are mounted without a label. The runtime then relabels the
// files if they can have labels.
func TestVolumeWithoutALabel(t *testing.T) {
	inAgent(t, func(a *agent) {
		for _, c := range []struct {
			mounted table
			want    bool
		}{
			{table{"/": "rw,seclabel", a.layout.Root: "rw,relatime"}, false},
			{table{"/": "rw", a.layout.Root: "rw,seclabel,relatime", a.layout.Root + "x": "rw"}, true},
			{table{"/": "rw,seclabel", a.layout.Volume("1", csi.Name, "own") + "/mount": "rw,noseclabel"}, false},
		} {
			a.stop()
			a.fixture.cfg.Mounts = mounted{&mounts.Memory{}, c.mounted}
			a.start()
			require.NoError(t, a.prepare(atLevel("1", "s0:c1")))
			require.Empty(t, a.fake.publish.Capability.MountFlags)
			for range 2 {
				at, err := a.Volume(t.Context(), atLevel("1", ""), "v")
				require.NoError(t, err)
				require.Equal(t, c.want, at.Relabel)
				a.Changed(volume.Object{Kind: "CSIDriver", Name: driver}) // the next Prepare mounts again
				require.NoError(t, a.prepare(atLevel("1", "s0:c1")))
			}
			require.NoError(t, a.release("1"))
			synctest.Wait() // until the volume is unstaged
		}
	}, withSELinux(false))
}
