package certificates

import (
	"bufio"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	ca, s := newAuthority(t), Store{Dir: at(t.TempDir(), "pki"), Name: "kubelet-client"}
	_, err := s.Current()
	require.ErrorIs(t, err, fs.ErrNotExist)
	put := func(node string) {
		cert, key := ca.pair(ClientRequest(node), time.Hour)
		c, err := s.Update(cert, key)
		require.NoError(t, err)
		require.Equal(t, "system:node:"+node, c.Leaf.Subject.CommonName)
	}
	name := func() string {
		c, err := s.Current()
		require.NoError(t, err)
		return c.Leaf.Subject.CommonName
	}
	put("a")
	require.Equal(t, "system:node:a", name())
	put("b") // within the same second
	require.Equal(t, "system:node:b", name())
	all := names(t, s.Dir)
	require.Regexp(t, `^kubelet-client-\d{4}(-\d\d){5}\.pem$`, all[0])
	require.Equal(t, "kubelet-client-current.pem", all[len(all)-1])
	target, err := os.Readlink(s.CurrentPath())
	require.NoError(t, err)
	require.Contains(t, all, target)
	info, err := os.Stat(s.CurrentPath())
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())

	cert, _ := ca.pair(ClientRequest("c"), time.Hour)
	_, key := ca.pair(ClientRequest("c"), time.Hour)
	_, err = s.Update(cert, key)
	require.ErrorContains(t, err, "kubelet-client-current.pem")
	require.Equal(t, "system:node:b", name(), "a certificate and another key are not stored")

	require.NoError(t, os.Remove(s.CurrentPath()))
	write(t, s.CurrentPath(), []byte("somebody's"))
	cert, key = ca.pair(ClientRequest("c"), time.Hour)
	_, err = s.Update(cert, key)
	require.ErrorContains(t, err, "is not a symbolic link")
	_, err = s.Current()
	require.ErrorContains(t, err, "kubelet-client-current.pem: ")
	require.NotErrorIs(t, err, fs.ErrNotExist)
}

// The files of a reference kubelet are usable: a link with an absolute path, and a link that was
// not renamed yet.
func TestStoreOfReferenceKubelet(t *testing.T) {
	ca, s := newAuthority(t), Store{Dir: t.TempDir(), Name: "kubelet-server"}
	cert, key := ca.pair(ClientRequest("a"), time.Hour)
	dated := at(s.Dir, "kubelet-server-2030-01-02-03-04-05.pem")
	write(t, dated, append(cert, key...))
	require.NoError(t, os.Symlink(dated, at(s.Dir, "kubelet-server-updated.pem")))
	_, err := s.Current()
	require.NoError(t, err)
	_, err = os.Lstat(s.CurrentPath())
	require.NoError(t, err, "other programs expect this name")
	cert, key = ca.pair(ClientRequest("b"), time.Hour)
	_, err = s.Update(cert, key)
	require.NoError(t, err)
	c, err := s.Current()
	require.NoError(t, err)
	require.Equal(t, "system:node:b", c.Leaf.Subject.CommonName)
}

// storeFolder passes the folder to the process that TestStoreSurvivesKill kills.
const storeFolder = "PODWRIGHT_TEST_STORE"

// A process that is killed during an update leaves a complete certificate.
func TestStoreSurvivesKill(t *testing.T) {
	if dir := os.Getenv(storeFolder); dir != "" {
		replaceForever(t, Store{Dir: dir, Name: "kubelet-client"})
		return
	}
	s := Store{Dir: t.TempDir(), Name: "kubelet-client"}
	for range 20 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStoreSurvivesKill$")
		cmd.Env = append(os.Environ(), storeFolder+"="+s.Dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n') // the process has begun to write
		require.NoError(t, err)
		time.Sleep(rand.N(5 * time.Millisecond))
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		_, err = os.Stat(s.CurrentPath())
		require.NoError(t, err)
		_, err = s.Current()
		require.NoError(t, err)
	}
}

func replaceForever(t *testing.T, s Store) {
	ca := newAuthority(t)
	for i := 0; ; i++ {
		cert, key := ca.pair(ClientRequest("a"), time.Hour)
		if _, err := s.Update(cert, key); err != nil {
			panic(err)
		}
		if i == 0 {
			_, _ = os.Stdout.WriteString("begun\n")
		}
	}
}
