package podsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

type fakeServer func(r *http.Request) (*http.Response, error)

func (w fakeServer) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

func answerOf(status int, body string) (*http.Response, error) {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// pass advances the time and waits for due work.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func runHTTP(t *testing.T, edit func(*HTTPConfig), server fakeServer) (*HTTPSource, *follower) {
	t.Helper()
	m := newMerger(t, MergerConfig{})
	cfg := HTTPConfig{URL: "http://me:secret@server/pods", Merger: m.Merger, Decoder: testDecoder(), Client: &http.Client{Transport: server}}
	if edit != nil {
		edit(&cfg)
	}
	h, err := NewHTTPSource(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, ignoreEvent) }()
	t.Cleanup(func() {
		began := time.Now()
		stop()
		require.NoError(t, <-done)
		require.Zero(t, time.Since(began), "Run returns without waiting for the reply")
	})
	synctest.Wait()
	return h, m
}

func TestHTTPSourceRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		header := http.Header{"Authorization": {"Bearer x"}, "Host": {"other"}, "X-Many": {"a", "b"}}
		var times []time.Duration
		began := time.Now()
		h, m := runHTTP(t, func(c *HTTPConfig) { c.Header = header }, func(r *http.Request) (*http.Response, error) {
			times = append(times, time.Since(began))
			require.Equal(t, http.MethodGet, r.Method)
			require.Equal(t, "/pods", r.URL.Path)
			require.Equal(t, "Bearer x", r.Header.Get("Authorization"))
			require.Equal(t, []string{"a", "b"}, r.Header["X-Many"])
			require.Equal(t, "other", r.Host)
			deadline, ok := r.Context().Deadline()
			require.True(t, ok)
			require.Equal(t, 10*time.Second, time.Until(deadline))
			return answerOf(200, web)
		})
		header.Set("Authorization", "changed by the caller")
		pass(41 * time.Second)
		require.Equal(t, []time.Duration{0, 20 * time.Second, 40 * time.Second}, times)
		pod := m.Changes("http")[0].Pods[0]
		require.Empty(t, pod.Spec.Tolerations, "only pods from files tolerate all taints")
		require.Equal(t, h.redactedURL, h.Origin(pod.UID))
		require.Empty(t, h.Origin("another"))
	})
}

// Each kind of failure is one problem that names the reason; the pods in force stay.
func TestHTTPSourceProblems(t *testing.T) {
	hang := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for name, c := range map[string]struct {
		server fakeServer
		want   string
	}{
		"no server":    {func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }, "connection refused"},
		"no reply":     {hang, "no complete reply within 10s"},
		"a slow reply": {func(r *http.Request) (*http.Response, error) { return endless(r, 0) }, "no complete reply within 10s"},
		"too much":     {func(r *http.Request) (*http.Response, error) { return endless(r, maxSize+1) }, "more than 10485760 bytes"},
		"truncated reply": {func(*http.Request) (*http.Response, error) {
			resp, _ := answerOf(200, "")
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("kind"), failing{}))
			return resp, nil
		}, "unexpected EOF"},
		"no content": {func(*http.Request) (*http.Response, error) { return answerOf(204, "") }, "the server returned No Content"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var good atomic.Bool
				h, m := runHTTP(t, nil,
					func(r *http.Request) (*http.Response, error) {
						if good.Load() {
							return answerOf(200, web)
						}
						return c.server(r)
					})
				pass(time.Minute)
				require.False(t, m.SourceReady("http"))
				require.Empty(t, m.Changes("http"), "no problem within the timeout")
				problems := h.Problems()
				require.Len(t, problems, 1)
				require.Contains(t, problems[0].Message, c.want)
				require.Equal(t, "http://me:xxxxx@server/pods", problems[0].Path)
				require.NotContains(t, problems[0].Message, "secret")
				require.False(t, problems[0].KeptLastGood)

				good.Store(true)
				pass(31 * time.Second)
				require.Len(t, m.Changes("http"), 1)
				require.Empty(t, h.Problems())

				good.Store(false)
				pass(31 * time.Second)
				require.Empty(t, m.Changes("http"), "the pods continue")
				require.Len(t, h.Problems(), 1)
				require.True(t, h.Problems()[0].KeptLastGood)
			})
		})
	}
}

// endless is a reply that stalls after n bytes.
func endless(r *http.Request, n int) (*http.Response, error) {
	resp, _ := answerOf(200, "")
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(bytes.Repeat([]byte("#"), n)), waiting{r.Context()}))
	return resp, nil
}

type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestNewHTTPSourceRefuses(t *testing.T) {
	good := HTTPConfig{URL: "https://server/x", Merger: newMerger(t, MergerConfig{}).Merger, Decoder: testDecoder()}
	for want, edit := range map[string]func(*HTTPConfig){
		"URL is required":                          func(c *HTTPConfig) { c.URL = "" },
		"Merger is required":                       func(c *HTTPConfig) { c.Merger = nil },
		"NodeName is required":                     func(c *HTTPConfig) { c.Decoder.NodeName = "" },
		"Period is negative":                       func(c *HTTPConfig) { c.Period = -1 },
		`"ftp://a" must be an http or https URL`:   func(c *HTTPConfig) { c.URL = "ftp://a" },
		`"server" must be an http or https URL`:    func(c *HTTPConfig) { c.URL = "server" },
		`"http:///x" must be an http or https URL`: func(c *HTTPConfig) { c.URL = "http:///x" },
		"HTTPConfig.URL":                           func(c *HTTPConfig) { c.URL = "http://a b:secret@c" },
		"u:xxxxx@h":                                func(c *HTTPConfig) { c.URL = "ftp://u:secret@h" },
	} {
		cfg := good
		edit(&cfg)
		_, err := NewHTTPSource(cfg)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := NewHTTPSource(good)
	require.NoError(t, err)
	require.Equal(t, []string{"http"}, good.Merger.Waiting())
}

// The UID of a static pod from a URL does not depend on the node, and the pod has no toleration
// for all taints.
func TestDecodeFromURL(t *testing.T) {
	uid := func(node, origin string) types.UID {
		pods, err := Decoder{NodeName: node, EvictedByTaints: true}.DecodeAll([]byte(web), origin)
		require.NoError(t, err)
		require.Len(t, pods, 1)
		require.Equal(t, "web-"+node, pods[0].Name)
		require.Empty(t, pods[0].Spec.Tolerations)
		return pods[0].UID
	}
	require.Equal(t, uid("n1", "url:http://a"), uid("n2", "url:http://a"))
	require.NotEqual(t, uid("n1", "url:http://a"), uid("n1", "url:http://b"))
	require.NotEqual(t, uid("n1", "file:/a"), uid("n2", "file:/a"))
}

func TestDecodeAll(t *testing.T) {
	pods, err := testDecoder().DecodeAll([]byte(`
apiVersion: v1
kind: PodList
metadata: {resourceVersion: "7"}
items:
- metadata: {name: a}
  spec: {containers: [{name: c, image: x}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: b, uid: u}
  spec: {containers: [{name: c, image: x}]}
`), "url:http://a")
	require.NoError(t, err)
	require.Equal(t, []string{"a-node-1", "b-node-1"}, []string{pods[0].Name, pods[1].Name})
	require.Equal(t, types.UID("u"), pods[1].UID)
	require.Equal(t, v1.PodPending, pods[0].Status.Phase)
	pods, err = testDecoder().DecodeAll([]byte(`{"kind": "PodList", "apiVersion": "v1", "items": []}`), "")
	require.NoError(t, err)
	require.Empty(t, pods)

	const head = "apiVersion: v1\nkind: PodList\n"
	for manifest, want := range map[string]string{
		head:                                    "items: Required",
		head + "items: 7":                       "items: must be a list",
		head + "items: [7]":                     "items[0]: must be an object",
		head + "items: [null]":                  "items[0]: must be an object",
		head + "items: []\nitems: []":           `"items" already set`,
		head + "items: []\nmore: x":             `unknown field "more"`,
		head + "Items: []":                      `unknown field "Items"`,
		head + "items: [{kind: Node}]":          "items[0]: kind: Unsupported",
		head + "items: [{metadata: {name: a}}]": "items[0]: spec.containers: Required",
		head + "items: [{metadata: {name: a}, spec: {containers: [{name: c, image: x, resources: {limits: {cpu: fast}}}]}}]": "items[0]: spec.containers[0].resources.limits[cpu]",
		"kind: PodList\nitems: []":                 "apiVersion: Required",
		"kind: PodList\napiVersion: v2\nitems: []": "apiVersion: Unsupported",
		"kind: List\napiVersion: v1\nitems: []":    "kind: Unsupported",
		"":                                         "empty",
	} {
		pods, err := testDecoder().DecodeAll([]byte(manifest), "")
		require.ErrorContains(t, err, want, manifest)
		require.Nil(t, pods)
	}
	_, err = Decoder{}.DecodeAll([]byte(web), "")
	require.ErrorContains(t, err, "NodeName")
}

// FuzzHTTPBody passes arbitrary replies to a page. It never panics, a refused reply has no effect,
// and a repeated valid reply is no change.
func FuzzHTTPBody(f *testing.F) {
	for _, seed := range []string{
		web, "", "kind: PodList\napiVersion: v1\nitems: [{metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}]",
		`{"kind":"PodList","apiVersion":"v1","items":[null]}`, "kind: PodList\nitems: {a: b}", "items: &a [*a]\nkind: PodList\n",
		`{"kind":"PodList","apiVersion":"v1","items":[{"kind":"PodList","items":[]}]}`,
	} {
		f.Add([]byte(seed))
	}
	d := testDecoder()
	f.Fuzz(func(t *testing.T, body []byte) {
		p := &page{decode: func(body []byte) ([]*v1.Pod, error) { return d.DecodeAll(body, "url:http://a") }}
		requireChanged := func(want bool, body []byte, why string) {
			_, changed, err := p.apply(body)
			require.NoError(t, err)
			require.Equal(t, want, changed, why)
		}
		requireChanged(true, []byte(web), "the first reply")
		pods, changed, err := p.apply(body)
		switch {
		case len(body) == 0:
			require.True(t, changed)
			require.ErrorIs(t, err, errEmptyReply)
			requireChanged(true, []byte(web), "an empty reply resets the last digest")
		case err != nil:
			require.False(t, changed)
			require.NotContains(t, err.Error(), "\n")
			requireChanged(false, []byte(web), "a refused reply does not change the pods")
		default:
			requireChanged(false, body, "a repeated reply")
			for _, pod := range pods {
				require.NotEmpty(t, pod.UID)
			}
		}
	})
}

// If the agent stops during a reply, no problem is recorded.
func TestHTTPSourceStopsAtOnce(t *testing.T) {
	var h *HTTPSource
	synctest.Test(t, func(t *testing.T) {
		h, _ = runHTTP(t, nil, func(r *http.Request) (*http.Response, error) { return endless(r, 1) })
	})
	require.Empty(t, h.Problems())
}

// Decoding a long reply does not block Problems.
func TestHTTPProblemsDoNotWaitForDecoding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decoded := make(chan struct{})
		h, _ := runHTTP(t, func(c *HTTPConfig) {
			c.Decoder.Check = func(*v1.Pod) []error { <-decoded; return nil }
		}, func(*http.Request) (*http.Response, error) { return answerOf(200, web) })
		require.Empty(t, h.Problems())
		close(decoded)
	})
}

// S9: pods, no pods and the same pods again are ADD, REMOVE and ADD. A server error and an invalid
// pod in a list keep the pods. At the start they leave the source unready.
func TestHTTPSourceReplies(t *testing.T) {
	list := func(image, second string) string {
		const pod = "\n- {metadata: {name: %s, uid: u%d}, spec: {containers: [{name: c, image: %s}]}}"
		return "apiVersion: v1\nkind: PodList\nitems:" + fmt.Sprintf(pod, "a", 1, image) + fmt.Sprintf(pod, second, 2, "x")
	}
	cases := []struct {
		status  int
		body    string
		want    []string
		problem string
	}{
		{500, "", nil, "the server returned Internal Server Error"},
		{200, "", []string{"ADD"}, "the reply is empty: the source has no pods"},
		{200, list("x", "b"), []string{"ADD a-node-1/u1 b-node-1/u2"}, ""},
		{200, list("x", "b"), nil, ""},
		{200, "", []string{"REMOVE a-node-1/u1 b-node-1/u2"}, "the reply is empty: the source has no pods"},
		{200, list("x", "b"), []string{"ADD a-node-1/u1 b-node-1/u2"}, ""},
		{500, "", nil, "the server returned Internal Server Error"},
		{200, list("z", "B"), nil, "items[1]: metadata.name: Invalid"},
		{200, "<html>hello</html>", nil, "must be an object"},
		{200, "kind: Service", nil, "kind: Unsupported value"},
		{404, "no such page", nil, "the server returned Not Found"},
		{200, list("z", "b"), []string{"UPDATE a-node-1/u1"}, ""},
		{200, `{"kind":"PodList","apiVersion":"v1","items":[]}`, []string{"REMOVE a-node-1/u1 b-node-1/u2"}, ""},
	}
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Int32
		h, m := runHTTP(t, nil, func(*http.Request) (*http.Response, error) {
			return answerOf(cases[now.Load()].status, cases[now.Load()].body)
		})
		for i, c := range cases {
			now.Store(int32(i))
			pass(20 * time.Second)
			require.Equal(t, c.want, trace(m.Changes("http")), i)
			m.Handled("http")
			require.Equal(t, i > 0, m.SourceReady("http"))
			if problems := h.Problems(); c.problem == "" {
				require.Empty(t, problems, i)
			} else {
				require.Contains(t, problems[0].Message, c.problem, i)
			}
		}
	})
}
