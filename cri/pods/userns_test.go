package pods

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri/pods/request"
)

// KEP-127: users outlive the agent, and are nobody else's.
func TestUserNamespaces(t *testing.T) {
	dir := t.TempDir()
	cfg := UserNamespacesConfig{
		PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) },
		Range:  request.IDRange{Length: 2 * 65536},
	}
	pod := func(uid string) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}} }
	start := func(pods ...types.UID) *UserNamespaces {
		cfg.Pods = pods
		u, err := NewUserNamespaces(cfg)
		require.NoError(t, err)
		return u
	}
	u := start()
	a, err := u.Of(pod("a"))
	require.NoError(t, err)
	require.Equal(t, request.UserNamespace{HostID: 65536, Length: 65536}, a)
	content, err := os.ReadFile(filepath.Join(dir, "a", "userns"))
	require.NoError(t, err)
	require.Equal(t, string(a.Encode()), string(content))

	// After a restart the pod has what it had, and the next one something else.
	u = start("a", "without")
	require.Equal(t, []types.UID{"a"}, u.Pods())
	b, err := u.Of(pod("b"))
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	again, err := u.Of(pod("a"))
	require.NoError(t, err)
	require.Equal(t, a, again)
	_, err = u.Of(pod("c"))
	require.ErrorContains(t, err, "no free range")
	require.NoFileExists(t, filepath.Join(dir, "c", "userns"))

	require.NoError(t, u.Release("a"))
	require.NoError(t, u.Release("a"))
	require.NoFileExists(t, filepath.Join(dir, "a", "userns"))
	c, err := u.Of(pod("c"))
	require.NoError(t, err)
	require.Equal(t, a, c)
}

// A file that makes no sense is the fault of that pod alone, and stays as it is.
func TestUserNamespacesBadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(uid, content string) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, uid), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, uid, "userns"), []byte(content), 0o600))
	}
	write("bad", "{")
	write("twin", string(request.UserNamespace{HostID: 65536, Length: 65536}.Encode()))
	write("twin2", string(request.UserNamespace{HostID: 65536, Length: 65536}.Encode()))
	u, err := NewUserNamespaces(UserNamespacesConfig{
		PodDir: func(uid types.UID) string { return filepath.Join(dir, string(uid)) }, Pods: []types.UID{"bad", "twin", "twin2"},
	})
	require.NoError(t, err)
	for uid, want := range map[types.UID]string{"bad": "invalid user namespace file", "twin2": "another pod's"} {
		_, err := u.Of(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
		require.ErrorContains(t, err, want)
		require.FileExists(t, filepath.Join(dir, string(uid), "userns"))
	}
	good, err := u.Of(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "good"}})
	require.NoError(t, err)
	require.EqualValues(t, 2*65536, good.HostID)

	// Nothing is given out that could not be written down.
	blocked := filepath.Join(dir, "blocked")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	_, err = u.Of(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "blocked"}})
	require.Error(t, err)
	require.NotContains(t, u.Pods(), types.UID("blocked"))
	_, err = NewUserNamespaces(UserNamespacesConfig{})
	require.ErrorContains(t, err, "PodDir")
	_, err = NewUserNamespaces(UserNamespacesConfig{PodDir: func(types.UID) string { return "" }, Range: request.IDRange{First: 1}})
	require.ErrorContains(t, err, "Range")
}
