package volume

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// A claim may come to be another volume of the same name: the one that it was is not used
// any more.
func TestAnotherVolumeOfThatName(t *testing.T) {
	s := newScript(t)
	disk := claimedVolume("disk", "1Gi")
	s.want("a", disk)
	v := s.w.pods["a"].names["disk"].volume
	before := v.shared
	disk.shared = "h-new"
	s.want("a", disk)
	require.Same(t, v, s.w.pods["a"].names["disk"].volume)
	require.Equal(t, ID{Plugin: "shared", Volume: "h-new"}, v.shared.id)
	require.Empty(t, before.users)
	s.finish()
}

// A pod's own volume is no claim, whatever its name: it keeps nobody from one.
func TestOwnVolumeHoldsNoClaim(t *testing.T) {
	s := newScript(t)
	s.want("a", inlineVolume("data"))
	s.endOf(doMount, outcome{})
	claim := claimedVolume("data", "1Gi")
	claim.spec.Persistent.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	claim.plugin, claim.shared = own, ""
	s.want("b", claim)
	s.endOf(doMount, outcome{})
	require.True(t, s.w.pods["b"].ready())
	s.finish()
}
