package objects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/volume"
)

type dirFixture struct {
	t       testing.TB
	path    string
	dir     *Dir
	changes chan []volume.Object

	mu    sync.Mutex
	reads map[string]int
}

func newDirFixture(t testing.TB, cfg DirConfig) *dirFixture {
	d := &dirFixture{t: t, path: filepath.Join(t.TempDir(), "objects"), changes: make(chan []volume.Object, 100), reads: map[string]int{}}
	cfg.Path, cfg.OnChange = d.path, func(o []volume.Object) { d.changes <- o }
	var err error
	d.dir, err = NewDir(cfg)
	require.NoError(t, err)
	d.dir.read = func(path string, known stamp) reading {
		r := readFile(path, known)
		if !r.same {
			d.mu.Lock()
			d.reads[filepath.Base(path)]++
			d.mu.Unlock()
		}
		return r
	}
	return d
}

func (d *dirFixture) run() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.dir.Run(ctx) }()
	d.t.Cleanup(func() {
		stop()
		require.NoError(d.t, <-done)
		require.ErrorIs(d.t, d.dir.Run(ctx), ErrAlreadyRun)
	})
}

// put replaces a file atomically.
func (d *dirFixture) put(file, text string) {
	full := filepath.Join(d.path, file)
	require.NoError(d.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(d.t, os.WriteFile(full+"~", []byte(text), 0o600))
	require.NoError(d.t, os.Rename(full+"~", full))
}

func (d *dirFixture) changed(want ...string) {
	d.t.Helper()
	var got []string
	for len(got) < len(want) {
		select {
		case objects := <-d.changes:
			for _, o := range objects {
				got = append(got, o.String())
			}
		case <-time.After(time.Minute):
			require.Equal(d.t, want, got, "no further change")
		}
	}
	require.ElementsMatch(d.t, want, got)
}

func (d *dirFixture) colour() string {
	c, err := d.dir.ConfigMap(d.t.Context(), "ns", "web")
	if err != nil {
		return err.Error()
	}
	return c.Data["colour"]
}

func (d *dirFixture) readsOf(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads[name]
}

// ExampleDir runs in a synctest bubble with NoWatch, because the clock of a bubble stops while
// a goroutine waits for the kernel. Use your test's own t.
func ExampleDir() {
	path, _ := os.MkdirTemp("", "objects")
	defer os.RemoveAll(path)
	folder := filepath.Join(path, "configmaps", "shop")
	_ = os.MkdirAll(folder, 0o755)

	synctest.Test(new(testing.T), func(t *testing.T) {
		dir, _ := NewDir(DirConfig{
			Path: path, NoWatch: true, Period: time.Minute,
			OnChange: func(changed []volume.Object) { fmt.Println(changed) },
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- dir.Run(ctx) }()
		synctest.Wait()
		_ = os.WriteFile(filepath.Join(folder, "web.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\ndata: {colour: blue}\n"), 0o644)
		time.Sleep(2 * time.Minute)
		web, err := dir.ConfigMap(ctx, "shop", "web")
		fmt.Println(web.Data["colour"], err)
		stop()
		fmt.Println(<-done)
	})
	// Output:
	// [ConfigMap shop/web]
	// blue <nil>
	// <nil>
}

func TestDirFollows(t *testing.T) {
	d := newDirFixture(t, DirConfig{Period: time.Hour})
	d.run()
	require.Equal(t, `configmap "ns/web" not found`, d.colour(), "a missing folder is valid")
	d.put(webFile, web)
	d.changed("ConfigMap ns/web")
	require.Equal(t, "blue", d.colour())
	d.put(webFile, strings.Replace(web, "blue", "red", 1))
	d.changed("ConfigMap ns/web")
	require.Equal(t, "red", d.colour())

	// A file that is written in place in two pieces is never served incomplete.
	f, err := os.OpenFile(filepath.Join(d.path, webFile), os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = f.WriteString(strings.Replace(web, "}", "", 1)[:len(web)-3])
	require.NoError(t, err)
	time.Sleep(150 * time.Millisecond)
	require.Equal(t, "red", d.colour())
	_, err = f.WriteAt([]byte(strings.Replace(web, "blue", "gray", 1)), 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	d.changed("ConfigMap ns/web")
	require.Equal(t, "gray", d.colour())

	d.put("secrets/ns/s.yaml", "apiVersion: v1\nkind: Secret\nstringData: {a: b}\n")
	d.put("trustbundles/b.yaml", "apiVersion: certificates.k8s.io/v1beta1\nkind: ClusterTrustBundle\nspec:\n  signerName: s/s\n  trustBundle: |\n    "+strings.ReplaceAll(pemText, "\n", "\n    ")+"\n")
	d.put("tokens/ns/sa.yaml", "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nspec: {audiences: [a]}\nstatus: {token: t}\n")
	d.put("csidrivers/d.yaml", "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nspec: {volumeLifecycleModes: [Ephemeral]}\n")
	d.changed("Secret ns/s", "ClusterTrustBundle b", "ServiceAccount ns/sa", "CSIDriver d")
	driver, err := d.dir.CSIDriver("d")
	require.NoError(t, err)
	require.Equal(t, []storagev1.VolumeLifecycleMode{"Ephemeral"}, driver.Spec.VolumeLifecycleModes)
	_, err = d.dir.CSIDriver("e")
	require.True(t, IsNotFound(err))
	s, err := d.dir.Secret(t.Context(), "ns", "s")
	require.NoError(t, err)
	require.Equal(t, "b", string(s.Data["a"]))
	pem, err := d.dir.TrustBundle(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, pemText, strings.TrimRight(pem, "\n")+"\n")
	of, err := d.dir.TrustBundlesOf(t.Context(), "s/s", &metav1.LabelSelector{})
	require.NoError(t, err)
	require.Len(t, of, 1)
	token, err := d.dir.Token(t.Context(), TokenRequest{Namespace: "ns", ServiceAccount: "sa", Audiences: []string{"a"}})
	require.NoError(t, err)
	require.Equal(t, Token{Value: "t"}, token)
	_, err = d.dir.Token(t.Context(), TokenRequest{Namespace: "ns", ServiceAccount: "sa", Audiences: []string{"b"}})
	require.ErrorContains(t, err, `tokens/ns/sa.yaml: spec.audiences: the token is not for "b"`)
	d.put("tokens/ns/sa.yaml", "apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nstatus: {token: "+jwt(`{"exp":1}`)+"}\n")
	d.changed("ServiceAccount ns/sa")
	_, err = d.dir.Token(t.Context(), TokenRequest{Namespace: "ns", ServiceAccount: "sa"})
	require.ErrorContains(t, err, "the token expired at 1970-01-01T00:00:01Z")

	d.put("trustbundles/b.yaml", "")
	d.put("trustbundles/c.yaml", "")
	require.Eventually(t, func() bool { return len(d.dir.Problems()) == 2 }, time.Minute, time.Millisecond)
	_, err = d.dir.TrustBundle(t.Context(), "b")
	require.NoError(t, err, "the last good version")
	_, err = d.dir.TrustBundlesOf(t.Context(), "s/s", &metav1.LabelSelector{})
	require.ErrorContains(t, err, "trustbundles/c.yaml: is not an object", "an incomplete result would remove trust")
	require.NoError(t, d.dir.CheckHealth())

	require.NoError(t, os.RemoveAll(filepath.Join(d.path, "configmaps")))
	d.changed("ConfigMap ns/web")
	require.Equal(t, `configmap "ns/web" not found`, d.colour())
	d.put(webFile, web)
	d.changed("ConfigMap ns/web")

	// If the whole folder disappears, its objects stay.
	require.NoError(t, os.Rename(d.path, d.path+".away"))
	require.Eventually(t, func() bool { return d.dir.CheckHealth() != nil }, time.Minute, time.Millisecond)
	require.Equal(t, "blue", d.colour())
	require.NoError(t, os.Rename(d.path+".away", d.path))
	require.Eventually(t, func() bool { return d.dir.CheckHealth() == nil }, time.Minute, time.Millisecond)
	d.put(webFile, strings.Replace(web, "blue", "red", 1))
	d.changed("ConfigMap ns/web")
	require.Equal(t, "red", d.colour())
}

// If the parent of the folder is missing, the watch begins when it exists.
func TestDirWithoutParent(t *testing.T) {
	d := newDirFixture(t, DirConfig{Period: time.Hour})
	away := filepath.Dir(d.path) + ".away"
	require.NoError(t, os.Rename(filepath.Dir(d.path), away))
	d.run()
	require.Equal(t, `configmap "ns/web" not found`, d.colour())
	require.Error(t, d.dir.watch(t.Context(), func(fs.Hint) {}))
	require.NoError(t, os.Rename(away, filepath.Dir(d.path)))
	d.put(webFile, web)
	d.changed("ConfigMap ns/web")
}

// A file that blocks its readers does not delay other files. It is served when a read succeeds.
func TestDirWithBlockedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirFixture(t, DirConfig{NoWatch: true})
		for i := range 100 {
			d.put(fmt.Sprintf("configmaps/ns/n%d.yaml", i), web)
		}
		answer, read := make(chan struct{}), d.dir.read
		d.dir.read = func(path string, known stamp) reading {
			if strings.Contains(path, "n7") { // 11 files
				<-answer
			}
			return read(path, known)
		}
		d.run()
		start := time.Now()
		_, err := d.dir.ConfigMap(t.Context(), "ns", "n8")
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 8*time.Second)
		_, err = d.dir.ConfigMap(t.Context(), "ns", "n7")
		require.EqualError(t, err, "ConfigMap ns/n7: configmaps/ns/n7.yaml: "+fs.Silence)
		require.False(t, IsNotFound(err))
		require.ErrorContains(t, d.dir.CheckHealth(), "n7.yaml "+fs.Silence)
		close(answer)
		time.Sleep(2 * retry)
		require.NoError(t, d.dir.CheckHealth())
		_, err = d.dir.ConfigMap(t.Context(), "ns", "n7")
		require.NoError(t, err)
	})
}

func TestDirFolderThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirFixture(t, DirConfig{NoWatch: true})
		d.put(webFile, web)
		answer, list := make(chan struct{}), d.dir.list
		var blocks atomic.Bool
		d.dir.list = func(path string) listing {
			if blocks.Load() {
				<-answer
			}
			return list(path)
		}
		d.run()
		require.Equal(t, "blue", d.colour())
		blocks.Store(true)
		time.Sleep(time.Minute)
		require.Equal(t, "blue", d.colour())
		require.ErrorContains(t, d.dir.CheckHealth(), fs.Silence)
		_, err := d.dir.Secret(t.Context(), "ns", "s")
		require.ErrorContains(t, err, "its folder cannot be listed")
		close(answer)
	})
}

// A version is read once, unless it is too young for a reliable time stamp. An immutable object
// is never read again.
func TestDirReadsOnce(t *testing.T) {
	for _, young := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { // the clock of a bubble is behind that of the file system
			d := newDirFixture(t, DirConfig{Period: time.Second, NoWatch: true})
			d.put(webFile, web)
			d.put("configmaps/ns/fixed.yaml", web+"immutable: true\n")
			if !young {
				info, err := os.Stat(filepath.Join(d.path, webFile))
				require.NoError(t, err)
				time.Sleep(time.Until(info.ModTime().Add(2 * minAge)))
			}
			d.run()
			time.Sleep(time.Minute)
			require.Equal(t, "blue", d.colour())
			before, fixed := d.readsOf("web.yaml"), d.readsOf("fixed.yaml")
			time.Sleep(time.Minute)
			require.Equal(t, fixed, d.readsOf("fixed.yaml"))
			require.Equal(t, young, d.readsOf("web.yaml") > before)
			require.Equal(t, young, before > 1)
		})
	}
}

func TestDirBeforeRun(t *testing.T) {
	d := newDirFixture(t, DirConfig{NoWatch: true})
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("enough"))
	_, err := d.dir.Secret(ctx, "ns", "s")
	require.ErrorContains(t, err, "waiting for Run to read "+d.path)
	require.ErrorContains(t, err, "enough")
	_, err = d.dir.TrustBundlesOf(ctx, "s", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestNewDir(t *testing.T) {
	_, err := NewDir(DirConfig{})
	require.EqualError(t, err, "objects: DirConfig.Path is required")
	_, err = NewDir(DirConfig{Path: "x", Period: -1})
	require.ErrorContains(t, err, "DirConfig.Period is negative")
	d, err := NewDir(DirConfig{Path: "x"})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		_, err := NewDir(DirConfig{Path: "x"})
		require.ErrorContains(t, err, "DirConfig.NoWatch must be true in a synctest bubble")
		require.ErrorContains(t, d.Run(t.Context()), "DirConfig.NoWatch must be true in a synctest bubble")
	})
	large := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(large, make([]byte, maxFile+1), 0o600))
	require.Contains(t, readFile(large, stamp{}).problem, "more than the limit of 2097152")
}
