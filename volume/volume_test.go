package volume_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSpec(t *testing.T) {
	inline, persistent := &v1.VolumeSource{}, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	for want, s := range map[string]*volume.Spec{
		"the spec is nil":          nil,
		"must have exactly one":    {Name: "a"},
		"a/b":                      {Name: "a/b", Inline: inline},
		`".." is no`:               {Name: "..", Inline: inline},
		`"" is no`:                 {Inline: inline},
		`"." is no`:                {Name: ".", Inline: inline},
		`"a\x00" is no`:            {Name: "a\x00", Inline: inline},
		"xxx\" is no":              {Name: strings.Repeat("x", 256), Inline: inline},
		"of Inline and Persistent": {Name: "a", Inline: inline, Persistent: persistent},
	} {
		require.ErrorContains(t, s.Check(), want)
	}
	require.NoError(t, (&volume.Spec{Name: strings.Repeat("x", 255), Inline: inline}).Check())
	s := &volume.Spec{Name: "a", Persistent: persistent}
	require.NoError(t, s.Check())
	require.False(t, s.Block())
	block := v1.PersistentVolumeBlock
	persistent.Spec.VolumeMode, persistent.Spec.MountOptions = &block, []string{"soft"}
	require.True(t, s.Block())
	require.Equal(t, []string{"soft"}, s.MountOptions())
	require.Nil(t, (&volume.Spec{Inline: inline}).MountOptions())
}

func TestNames(t *testing.T) {
	require.Equal(t, "kubernetes.io/csi/d^h", volume.ID{Plugin: "kubernetes.io/csi", Volume: "d^h"}.String())
	require.Equal(t, "kubernetes.io/empty-dir/u1-cache", volume.ID{Plugin: "kubernetes.io/empty-dir", Pod: "u1", Volume: "cache"}.String())
	require.Equal(t, "ConfigMap default/web", volume.Object{Kind: "ConfigMap", Namespace: "default", Name: "web"}.String())
	require.Equal(t, "ClusterTrustBundle roots", volume.Object{Kind: "ClusterTrustBundle", Name: "roots"}.String())
}

func TestLayout(t *testing.T) {
	l := volume.Layout{Root: "/var/lib/kubelet"}
	for want, got := range map[string]string{
		"/var/lib/kubelet/pods/u/volumeDevices/kubernetes.io~csi/v": l.Device("u", "kubernetes.io/csi", "v"),
		"/var/lib/kubelet/pods/u/volume-subpaths/v/c/2":             l.SubPath("u", "v", "c", 2),
		"/var/lib/kubelet/plugins/kubernetes.io/csi":                l.Plugin("kubernetes.io/csi"),
	} {
		require.Equal(t, want, got)
	}
	require.Equal(t, "kubernetes.io/csi", volume.Unescape(volume.Escape("kubernetes.io/csi")))
}

func TestAtField(t *testing.T) {
	failed := errors.New("failed")
	err := volume.AtField("a", volume.Transient(run.Join(volume.AtField("b", failed), failed)))
	require.EqualError(t, err, "a.b: failed\na: failed")
	require.ErrorIs(t, err, volume.ErrTransient)
	require.ErrorIs(t, err, failed)
}

func TestMarks(t *testing.T) {
	failed := errors.New("failed")
	require.NoError(t, volume.Uncertain(nil))
	for _, err := range []error{volume.Uncertain(failed), volume.Uncertain(volume.Uncertain(failed))} {
		require.ErrorIs(t, err, failed)
		require.ErrorIs(t, err, volume.ErrUncertain)
		require.EqualError(t, err, "failed")
	}
	require.NotErrorIs(t, volume.Uncertain(volume.Transient(failed)), volume.ErrUncertain)
}
