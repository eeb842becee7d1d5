package objects

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/volume"
)

const (
	webFile = "configmaps/ns/web.yaml"
	web     = "apiVersion: v1\nkind: ConfigMap\ndata: {colour: blue}\n"
)

var webObject = volume.Object{Kind: KindConfigMap, Namespace: "ns", Name: "web"}

// catalogFixture passes snapshots to a catalog.
type catalogFixture struct {
	t       *testing.T
	c       *catalog
	now     time.Time
	files   map[string]reading
	busy    time.Duration
	recheck time.Duration
}

func newCatalogFixture(t *testing.T) *catalogFixture {
	return &catalogFixture{t: t, c: newCatalog(), now: time.Unix(1e9, 0), files: map[string]reading{}}
}

func (w *catalogFixture) put(file, text string) { w.files[file] = reading{data: []byte(text)} }

func (w *catalogFixture) apply(folders map[string]Problem) (changed []volume.Object) {
	changed, w.recheck = w.c.apply(snapshot{w.files, folders}, func(string, time.Time) time.Duration { return w.busy }, w.now)
	return changed
}

func (w *catalogFixture) colour() string {
	value, err := w.c.find(webObject)
	if err != nil {
		return err.Error()
	}
	return value.(*v1.ConfigMap).Data["colour"]
}

func TestLastGoodVersionStays(t *testing.T) {
	w := newCatalogFixture(t)
	require.Empty(t, w.apply(nil))
	require.Equal(t, `configmap "ns/web" not found`, w.colour())

	w.put(webFile, "kind: [")
	require.Empty(t, w.apply(nil))
	require.Contains(t, w.colour(), "ConfigMap ns/web: configmaps/ns/web.yaml: yaml:", "an invalid file is not missing")
	require.Equal(t, []volume.Object{webObject}, func() []volume.Object { w.put(webFile, web); return w.apply(nil) }())
	require.Empty(t, w.apply(nil))
	require.Equal(t, "blue", w.colour())

	w.put(webFile, strings.Replace(web, "data", "dat", 1))
	require.Empty(t, w.apply(nil))
	require.Equal(t, "blue", w.colour())
	problems := w.c.problems()
	require.Len(t, problems, 1)
	require.Zero(t, w.recheck, "no scan without a change")
	require.Equal(t, Problem{Path: webFile, Message: `strict decoding error: unknown field "dat"`, KeptLastGood: true}, problems[0])

	w.files[webFile] = reading{problem: "is odd"}
	require.Empty(t, w.apply(nil))
	require.Equal(t, "is odd", w.c.problems()[0].Message)
	require.Zero(t, w.recheck, "no scan without a change")
	w.files[webFile] = reading{silent: true}
	require.Empty(t, w.apply(nil))
	require.True(t, w.c.problems()[0].NoAnswer)
	require.Equal(t, retry, w.recheck)
	require.Equal(t, "blue", w.colour())

	w.put(webFile, strings.Replace(web, "blue", "red", 1))
	w.busy = time.Second
	require.Empty(t, w.apply(nil), "the file is being written")
	require.Equal(t, time.Second, w.recheck)
	require.Equal(t, "blue", w.colour())
	w.busy = 1
	require.Empty(t, w.apply(nil), "the file is still being written")
	require.Equal(t, time.Millisecond, w.recheck)
	w.busy = 0
	require.Len(t, w.apply(nil), 1)
	require.Equal(t, "red", w.colour())
	require.Empty(t, w.c.problems())
}

// A file is read again after a failed read, even if its content is as before.
func TestFileIsReadAgainAfterAFailure(t *testing.T) {
	w := newCatalogFixture(t)
	good := reading{data: []byte(web), stamp: stamp{Size: 7}}
	w.files[webFile] = good
	require.Len(t, w.apply(nil), 1)
	known, _ := w.c.lastStamp(webFile)
	require.Equal(t, good.stamp, known)
	w.files[webFile] = reading{problem: "is odd"}
	require.Empty(t, w.apply(nil))
	known, _ = w.c.lastStamp(webFile)
	require.Zero(t, known)
	w.files[webFile] = good
	require.Empty(t, w.apply(nil), "the object is unchanged")
	require.Zero(t, w.recheck, "no further scan")
	require.Empty(t, w.c.problems())
}

// A file with a new time but equal content is not delayed.
func TestNewTimeStampIsNoChange(t *testing.T) {
	w := newCatalogFixture(t)
	w.put(webFile, web)
	require.Len(t, w.apply(nil), 1)
	touched := reading{data: []byte(web), stamp: stamp{Size: 7}}
	w.files[webFile], w.busy = touched, time.Second
	require.Empty(t, w.apply(nil))
	require.Zero(t, w.recheck)
	known, _ := w.c.lastStamp(webFile)
	require.Equal(t, touched.stamp, known)
}

// A file that becomes readable again without a change stays valid.
func TestBlockedFileStaysValid(t *testing.T) {
	w := newCatalogFixture(t)
	w.put(webFile, web)
	require.Len(t, w.apply(nil), 1)
	w.files[webFile] = reading{silent: true}
	require.Empty(t, w.apply(nil))
	require.True(t, w.c.problems()[0].NoAnswer)
	w.files[webFile] = reading{same: true}
	require.Empty(t, w.apply(nil))
	require.Zero(t, w.recheck)
	require.Empty(t, w.c.problems())
	require.Equal(t, "blue", w.colour())
}

func TestRemovedFile(t *testing.T) {
	w := newCatalogFixture(t)
	w.put(webFile, web)
	require.Len(t, w.apply(nil), 1)
	delete(w.files, webFile)
	require.Empty(t, w.apply(nil))
	require.Equal(t, removalDelay, w.recheck)
	w.put(webFile, web)
	w.now = w.now.Add(time.Hour)
	require.Empty(t, w.apply(nil), "a file that was moved away and back")
	delete(w.files, webFile)
	for _, unknown := range []string{".", "configmaps", "configmaps/ns"} {
		require.Empty(t, w.apply(map[string]Problem{unknown: {Path: unknown, Message: "cannot be read", NoAnswer: true}}))
		w.now = w.now.Add(time.Hour)
		require.Equal(t, "blue", w.colour(), "an unlistable folder keeps its objects")
		require.Equal(t, retry, w.recheck)
		_, err := w.c.find(volume.Object{Kind: KindConfigMap, Namespace: "ns", Name: "other"})
		require.ErrorContains(t, err, "configmaps/ns/other.yaml: its folder cannot be listed")
		require.False(t, IsNotFound(err))
	}
	w.files[webFile] = reading{vanished: true}
	require.Empty(t, w.apply(nil))
	w.now = w.now.Add(removalDelay - 1)
	require.Empty(t, w.apply(nil))
	w.now = w.now.Add(1)
	require.Equal(t, []volume.Object{webObject}, w.apply(nil))
	require.Equal(t, `configmap "ns/web" not found`, w.colour())
	require.Empty(t, w.c.files)

	w.put(webFile, web)
	w.busy = time.Second
	require.Empty(t, w.apply(nil))
	require.Equal(t, w.busy, w.recheck)
	require.Equal(t, "ConfigMap ns/web: configmaps/ns/web.yaml: is still being written", w.colour())
}

func TestImmutableFile(t *testing.T) {
	w := newCatalogFixture(t)
	w.put(webFile, web+"immutable: true\n")
	require.Len(t, w.apply(nil), 1)
	_, immutable := w.c.lastStamp(webFile)
	require.True(t, immutable)
	w.files[webFile] = reading{same: true}
	require.Empty(t, w.apply(nil))
	require.Equal(t, "blue", w.colour())
	delete(w.files, webFile)
	w.apply(nil)
	w.now = w.now.Add(removalDelay)
	require.Len(t, w.apply(nil), 1)
	_, immutable = w.c.lastStamp(webFile)
	require.False(t, immutable)
}

func TestMisplacedFiles(t *testing.T) {
	w := newCatalogFixture(t)
	for _, file := range []string{"README", "config/ns/a.yaml", "configmaps/a.yaml", "configmaps/ns/a.yml", "configmaps/NS/a.yaml", "configmaps/ns/A.yaml", "trustbundles/ns/a.yaml", "secrets/ns/a:b.yaml"} {
		w.put(file, "")
	}
	require.Empty(t, w.apply(nil))
	var got []string
	for _, p := range w.c.problems() {
		got = append(got, p.Path+" "+p.Message)
	}
	require.Len(t, got, len(w.files))
	all := strings.Join(got, "\n")
	for _, want := range []string{
		`README folder "README": must be one of configmaps, csidrivers, secrets, tokens, trustbundles`, "must be 2 folders deep",
		"must end with .yaml", `namespace "NS": `, `name "A": not a valid name of a ConfigMap`, "must be 1 folders deep", `name "a:b": not a valid name of a Secret`,
	} {
		require.Contains(t, all, want)
	}
}
