package cri_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri"
)

func TestOwnerCheck(t *testing.T) {
	adopts := func(string) bool { return false }
	for problem, owner := range map[string]cri.Owner{
		"Owner is required":         {},
		"Unlabelled excludes Name":  {Name: "edge", Unlabelled: true},
		"excludes Adopts":           {Unlabelled: true, Adopts: adopts},
		`Name "a/b" is no`:          {Name: "a/b"},
		`Name "-a" is no`:           {Name: "-a"},
		"is no label value of 1 to": {Name: strings.Repeat("a", 64)},
	} {
		require.ErrorContains(t, owner.Check(), problem)
	}
	for _, owner := range []cri.Owner{{Unlabelled: true}, {Name: "a"}, {Name: strings.Repeat("a", 63), Adopts: adopts}, {Name: "Edge-1.b_c"}} {
		require.NoError(t, owner.Check(), owner)
	}
}

func TestOwns(t *testing.T) {
	none := map[string]string{"io.kubernetes.pod.uid": "1"}
	edge := map[string]string{"io.kubernetes.pod.uid": "1", cri.LabelOwner: "edge"}
	empty := map[string]string{"io.kubernetes.pod.uid": "1", cri.LabelOwner: ""}
	adopting := func(uid string) cri.Owner {
		return cri.Owner{Name: "edge", Adopts: func(podUID string) bool { return podUID == uid }}
	}
	for name, c := range map[string]struct {
		owner             cri.Owner
		none, edge, empty bool
	}{
		"zero":       {owner: cri.Owner{}, empty: false},
		"unlabelled": {owner: cri.Owner{Unlabelled: true}, none: true},
		"edge":       {owner: cri.Owner{Name: "edge"}, edge: true},
		"other":      {owner: cri.Owner{Name: "other"}},
		"adopted":    {owner: adopting("1"), none: true, edge: true},
		"another":    {owner: adopting("2"), edge: true},
	} {
		require.Equal(t, []bool{c.none, c.edge, c.empty}, []bool{c.owner.Owns(none), c.owner.Owns(edge), c.owner.Owns(empty)}, name)
		if c.owner.Check() == nil {
			made := map[string]string{cri.LabelOwner: "forged"}
			c.owner.Label(made)
			require.True(t, c.owner.Owns(made), name)
		}
	}
}

// Two agents of one owner on one runtime are refused, in each folder for the lock.
func TestOwnerLock(t *testing.T) {
	real := filepath.Join(t.TempDir(), "r.sock")
	l, err := net.Listen("unix", real)
	require.NoError(t, err)
	defer l.Close()
	link := filepath.Join(t.TempDir(), "link.sock")
	require.NoError(t, os.Symlink(real, link))
	folder, temporary := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for name, c := range map[string]struct{ socket, folder, want string }{
		"beside the socket":   {socket: real, want: real + ".edge.lock"},
		"a linked socket":     {socket: link, want: real + ".edge.lock"},
		"no runtime yet":      {socket: folder + "/run/r.sock", want: folder + "/run/r.sock.edge.lock"},
		"its own folder":      {socket: real, folder: folder, want: filepath.Join(folder, strings.ReplaceAll(real, "/", ":")) + ".edge.lock"},
		"not writable":        {socket: "/sys/r.sock", want: temporary + "/:sys:r.sock.edge.lock"},
		"a folder that stays": {socket: "/sys/new/r.sock", want: temporary + "/:sys:new:r.sock.edge.lock"},
	} {
		first, err := cri.Owner{Name: "edge"}.Lock(c.socket, c.folder)
		require.NoError(t, err, name)
		require.Equal(t, c.want, first.Name(), name)
		require.Equal(t, filepath.Dir(c.want) == temporary, first.Fallback, name)
		_, err = cri.Owner{Name: "edge"}.Lock("unix://"+c.socket, c.folder)
		require.ErrorIs(t, err, cri.ErrOwnerInUse, name)
		require.ErrorContains(t, err, "lock of owner edge on /", name)
		kubelet, err := cri.Owner{Unlabelled: true}.Lock(c.socket, c.folder)
		require.NoError(t, err, name)
		require.NoError(t, kubelet.Close())
		require.NoError(t, first.Close())
		next, err := cri.Owner{Name: "edge"}.Lock(c.socket, c.folder)
		require.NoError(t, err, name)
		require.NoError(t, next.Close())
	}
	_, err = cri.Owner{Name: "edge"}.Lock("relative", "")
	require.Error(t, err)
	t.Setenv("TMPDIR", "/sys")
	_, err = cri.Owner{Name: "edge"}.Lock("/sys/r.sock", "")
	require.ErrorContains(t, err, "select a writable folder")
}
