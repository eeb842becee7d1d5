package request

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// KEP-127: the file has the kubelet's format.
func TestUserNamespaceFile(t *testing.T) {
	const text = `{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`
	u := UserNamespace{HostID: 131072, Length: 65536}
	require.Equal(t, text, string(u.Encode()))
	got, err := DecodeUserNamespace([]byte(text))
	require.NoError(t, err)
	require.Equal(t, u, got)
	for _, bad := range []string{
		"", "{}", "[]", strings.Replace(text, `"gid`, `"gyd`, 1), strings.Replace(text, `131072`, `65536`, 1),
		strings.ReplaceAll(text, `"containerId":0`, `"containerId":1`), strings.ReplaceAll(text, "131072", "0"),
		strings.ReplaceAll(text, "65536", "0"), strings.ReplaceAll(text, "65536", "-1"),
		strings.Replace(text, `[{`, `[{"hostId":1,"length":1},{`, 1), strings.Replace(text, `}]`, `},{"hostId":1,"length":1}]`, 1),
	} {
		_, err := DecodeUserNamespace([]byte(bad))
		require.ErrorContains(t, err, "invalid user namespace file", bad)
	}
}

func FuzzDecodeUserNamespace(f *testing.F) {
	f.Add(UserNamespace{HostID: 65536, Length: 65536}.Encode())
	f.Add([]byte(`{"uidMappings":null}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		u, err := DecodeUserNamespace(content)
		if err != nil {
			require.Zero(t, u)
			return
		}
		again, err := DecodeUserNamespace(u.Encode())
		require.NoError(t, err)
		require.Equal(t, u, again)
		require.True(t, json.Valid(content))
	})
}

func TestNewIDs(t *testing.T) {
	d, err := NewIDs(IDRange{})
	require.NoError(t, err)
	require.Len(t, d.used, 65535, "all of 2^32 but the first 65536")
	u, err := d.Allocate("a")
	require.NoError(t, err)
	require.Equal(t, UserNamespace{HostID: 65536, Length: 65536}, u)
	last := UserNamespace{HostID: 65535 * 65536, Length: 65536}
	require.NoError(t, d.Record("z", last))
	for field, r := range map[string]IDRange{
		"PerPod": {PerPod: 1000}, "First": {First: 65537}, "Length": {Length: 65537}, "exceed 2^32": {First: 1 << 31, Length: 1<<31 + 65536},
		"not enough": {Length: 2 * 65536, MaxPods: 3}, "0 IDs are not enough for 1 pods": {PerPod: 3 * 65536, First: 65535 * 65536},
	} {
		_, err := NewIDs(r)
		require.ErrorContains(t, err, field)
	}
	_, err = NewIDs(IDRange{Length: 65536})
	require.NoError(t, err, "enough for one pod")
	d, err = NewIDs(IDRange{PerPod: 3 * 65536})
	require.NoError(t, err)
	u, err = d.Allocate("a")
	require.NoError(t, err)
	require.Equal(t, UserNamespace{HostID: 3 * 65536, Length: 3 * 65536}, u)
}

func TestIDs(t *testing.T) {
	d, err := NewIDs(IDRange{First: 1 << 20, Length: 3 * 65536, MaxPods: 3})
	require.NoError(t, err)
	at := func(i uint32) UserNamespace { return UserNamespace{HostID: 1<<20 + i*65536, Length: 65536} }
	require.NoError(t, d.Record("old", at(1)))
	require.NoError(t, d.Record("old", at(1)), "twice the same")
	require.ErrorContains(t, d.Record("other", at(1)), "belongs to another pod")
	require.ErrorContains(t, d.Record("old", at(2)), "already has the range")
	require.ErrorContains(t, d.Record("x", at(3)), "out of range")
	require.ErrorContains(t, d.Record("x", UserNamespace{HostID: 65536, Length: 65536}), "out of range")
	get := func(uid types.UID) UserNamespace {
		u, err := d.Allocate(uid)
		require.NoError(t, err)
		return u
	}
	require.Equal(t, at(1), get("old"))
	require.Equal(t, at(0), get("a"))
	require.Equal(t, at(0), get("a"), "the same at each call")
	d.Release("a")
	d.Release("nobody")
	require.Equal(t, at(2), get("b"), "not used again at once")
	require.Equal(t, at(0), get("c"))
	require.ElementsMatch(t, []types.UID{"old", "b", "c"}, d.Pods())
	_, err = d.Allocate("d")
	require.ErrorContains(t, err, "no free ID range")
	d.Release("old")
	require.Equal(t, at(1), get("d"))
}

// After a change of PerPod, the ranges of the old size stay reserved for their pods.
func TestIDsOfAnotherSize(t *testing.T) {
	d, err := NewIDs(IDRange{PerPod: 2 * 65536, Length: 8 * 65536})
	require.NoError(t, err)
	for uid, u := range map[types.UID]UserNamespace{
		"below":       {HostID: 65536, Length: 65536},
		"second":      {HostID: 5 * 65536, Length: 65536},
		"across":      {HostID: 7 * 65536, Length: 2 * 65536},
		"out":         {HostID: 9 * 65536, Length: 2 * 65536},
		"exceed 2^32": {HostID: 20 * 65536, Length: 65536},
		"empty":       {HostID: 2 * 65536},
	} {
		require.ErrorContains(t, d.Record(uid, u), "not a range of 131072", uid)
	}
	require.Empty(t, d.Pods())
	got, err := d.Allocate("new")
	require.NoError(t, err)
	require.Equal(t, UserNamespace{HostID: 2 * 65536, Length: 2 * 65536}, got)
	_, err = d.Allocate("next")
	require.ErrorContains(t, err, "no free ID range")

	d, err = NewIDs(IDRange{PerPod: 2 * 65536, Length: 8 * 65536})
	require.NoError(t, err)
	require.Error(t, d.Record("into the first", UserNamespace{HostID: 65536, Length: 2 * 65536}))
	got, err = d.Allocate("new")
	require.NoError(t, err)
	require.Equal(t, UserNamespace{HostID: 4 * 65536, Length: 2 * 65536}, got)
}

// No ID ever belongs to two pods.
func FuzzIDs(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(42))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		d, err := NewIDs(IDRange{Length: 8 * 65536})
		require.NoError(t, err)
		have := map[types.UID]UserNamespace{}
		for range 200 {
			uid := types.UID(rune('a' + r.IntN(12)))
			u := UserNamespace{HostID: uint32(r.IntN(10)) * 65536, Length: 65536}
			switch r.IntN(3) {
			case 0:
				if u, err = d.Allocate(uid); err != nil {
					require.Len(t, have, 8)
					continue
				}
			case 1:
				if d.Record(uid, u) != nil {
					continue
				}
			default:
				d.Release(uid)
				delete(have, uid)
				continue
			}
			if old, ok := have[uid]; ok {
				require.Equal(t, old, u)
			}
			have[uid] = u
			seen := map[uint32]bool{}
			for _, u := range have {
				require.False(t, seen[u.HostID])
				require.GreaterOrEqual(t, u.HostID, uint32(65536))
				seen[u.HostID] = true
			}
		}
	})
}

func TestParseSubIDs(t *testing.T) {
	first, length, err := ParseSubIDs("0: kubelet 65536 7208960\n")
	require.NoError(t, err)
	require.EqualValues(t, 65536, first)
	require.EqualValues(t, 7208960, length)
	for _, bad := range []string{"", "0: kubelet 65536", "0: kubelet 1 2\n1: kubelet 3 4", "0: kubelet 1\n2", "0: kubelet x 1", "0: kubelet 1 4294967296", "0: kubelet -1 1"} {
		_, _, err := ParseSubIDs(bad)
		require.ErrorContains(t, err, "getsubids", bad)
	}
}

// 6.6: a pod with hostUsers false fails without a source of user namespaces, and with a runtime
// that does not support them. The golden records cover the result, except for the agent's own
// mounts.
func TestUserNamespace(t *testing.T) {
	h := newHarness(t)
	pod := testPod("a")
	pod.Spec.HostUsers = new(false)
	build := func() (*runtimeapi.ContainerConfig, error) {
		return h.builder().Container(t.Context(), Instance{Pod: pod, Container: &pod.Spec.Containers[0], HostsFile: "/pods/hosts", PodIPs: []string{"10.0.0.2"}})
	}
	of := func(u UserNamespace, err error, able bool) {
		h.cfg.UserNamespace = func(*v1.Pod) (UserNamespace, error) { return u, err }
		h.cfg.HandlerFeatures = func(*v1.Pod) HandlerFeatures { return HandlerFeatures{UserNamespaces: able} }
	}
	_, err := build()
	require.ErrorContains(t, err, "no user namespaces")
	of(UserNamespace{HostID: 131072, Length: 65536}, nil, false)
	_, err = build()
	require.ErrorContains(t, err, "runtime does not support user namespaces")
	of(UserNamespace{}, ErrNotFound, true)
	_, err = build()
	require.ErrorIs(t, err, ErrNotFound)
	of(UserNamespace{HostID: 131072, Length: 65536}, nil, true)
	config, err := build()
	require.NoError(t, err)
	want := []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}}
	require.Equal(t, want, config.Linux.SecurityContext.NamespaceOptions.UsernsOptions.Uids)
	require.Equal(t, want, config.Mounts[0].UidMappings)
	require.Equal(t, want, config.Mounts[0].GidMappings)
}
