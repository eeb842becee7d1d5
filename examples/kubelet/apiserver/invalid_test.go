package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// replaced replaces the bodies of responses to calls other than watches while it has one, and the
// content of watches while it has an event.
type replaced struct {
	http.RoundTripper
	body  atomic.Pointer[func() io.Reader]
	event atomic.Pointer[string] // replaces the content of watches
}

func (r *replaced) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(req)
	if event := r.event.Load(); event != nil && err == nil && req.URL.Query().Has("watch") {
		_ = response.Body.Close()
		response.StatusCode, response.Header, response.ContentLength = http.StatusOK, http.Header{"Content-Type": {"application/json"}}, -1
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader(*event), open{req.Context()}))
	}
	if body := r.body.Load(); body != nil && err == nil && !req.URL.Query().Has("watch") {
		_ = response.Body.Close()
		response.StatusCode, response.Header, response.ContentLength = http.StatusOK, http.Header{"Content-Type": {"application/json"}}, -1
		response.Body = io.NopCloser((*body)())
	}
	return response, err
}

// open is a body that does not end before its request.
type open struct{ context.Context }

func (o open) Read([]byte) (int, error) {
	<-o.Done()
	return 0, o.Err()
}

func (r *replaced) with(text string) {
	body := func() io.Reader { return strings.NewReader(text) }
	r.body.Store(&body)
}

func connectReplaced(t *testing.T) (*apitest.Server, *apiserver.Client, *replaced) {
	r := &replaced{}
	server, client := connect(t, func(c *apiserver.Config) {
		c.Wrap = func(next http.RoundTripper) http.RoundTripper { r.RoundTripper = next; return r }
	})
	return server, client, r
}

// A response that is no list, or a Node without UID, changes no feed.
func TestFeedKeepsItsStateOnInvalidResponses(t *testing.T) {
	for name, c := range map[string]struct{ body, err string }{
		"null":              {"null", ""},
		"an empty object":   {"{}", ""},
		"no version":        {`{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`, "no resourceVersion"},
		"no version, null":  {`{"kind":"NodeList","apiVersion":"v1","items":null}`, "no resourceVersion"},
		"Node without UID":  {`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[{"metadata":{"name":"n"}}]}`, "has no UID"},
		"Node without meta": {`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[{}]}`, "has no UID"},
		"null as a Node":    {`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[null]}`, "has no UID"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client, response := connectReplaced(t)
				server.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}})
				feed, err := apiserver.NewFeed(apiserver.FeedConfig[*v1.Node, *v1.NodeList]{Resource: client.Nodes(), Check: apiserver.CheckNode})
				require.NoError(t, err)
				apitest.Run(t, feed.Run)
				time.Sleep(time.Minute)
				require.Len(t, feed.All(), 1)

				response.with(c.body)
				server.Forget() // the watch is too old, so that the feed lists again
				server.CloseWatches()
				time.Sleep(time.Minute)
				require.ErrorContains(t, feed.Err(), c.err)
				require.Len(t, feed.All(), 1)
				require.Equal(t, map[string]string{"a": "b"}, feed.All()[0].Labels)

				response.body.Store(nil)
				time.Sleep(time.Minute)
				require.NoError(t, feed.Err())
				require.Len(t, feed.All(), 1)
			})
		})
	}
}

// watches replaces the responses to watches while it has a function.
type watches struct {
	http.RoundTripper
	respond atomic.Pointer[func(*http.Request) (*http.Response, error)]
}

func (w *watches) RoundTrip(req *http.Request) (*http.Response, error) {
	if respond := w.respond.Load(); respond != nil && req.URL.Query().Has("watch") {
		return (*respond)(req)
	}
	return w.RoundTripper.RoundTrip(req)
}

// A server whose watches hang or lose their position costs time, but no change.
func TestFeedRecoversFromInvalidWatches(t *testing.T) {
	events := func(body io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body)}, nil
	}
	for name, respond := range map[string]func(*http.Request) (*http.Response, error){
		"no response": func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		},
		"no event": func(req *http.Request) (*http.Response, error) { return events(silent{req.Context()}) },
		"bookmark without version": func(*http.Request) (*http.Response, error) {
			return events(strings.NewReader(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}}`))
		},
		"object without version": func(*http.Request) (*http.Response, error) {
			return events(strings.NewReader(`{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"new","namespace":"ns"}}}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watches{}
				server, client := connect(t, func(c *apiserver.Config) {
					c.Wrap = func(next http.RoundTripper) http.RoundTripper { w.RoundTripper = next; return w }
				})
				server.Put(configMap("a", "1"))
				server.Put(configMap("gone", "1"))
				feed := follow(t, client)
				time.Sleep(time.Minute)
				require.Len(t, feed.All(), 2)

				w.respond.Store(&respond)
				server.CloseWatches()
				time.Sleep(time.Second)
				calls := len(server.Calls())
				time.Sleep(time.Minute)
				require.LessOrEqual(t, len(server.Calls())-calls, 20)
				w.respond.Store(nil)
				server.Put(configMap("a", "2"))
				server.Remove(configMap("gone", ""))
				time.Sleep(11 * time.Minute)
				require.True(t, feed.shows("a", "2")(), "%v", feed.All())
				require.Len(t, feed.All(), 1)
				require.NoError(t, feed.Err())
			})
		})
	}
}

// silent is a body without content that ends with the request.
type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// A list whose pages have no end is refused, and the state stays.
func TestListWithoutEnd(t *testing.T) {
	item := fmt.Sprintf(`{"metadata":{"name":"x","namespace":"ns"},"data":{"k":%q}}`, strings.Repeat("x", 1<<20))
	for name, c := range map[string]struct {
		items string
		time  time.Duration // of one list, with the client's rate limit
	}{"empty pages": {"", 25 * time.Second}, "large pages": {item, time.Second / 2}} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && c.items != "" {
				t.Skip("decodes 33 MiB")
			}
			synctest.Test(t, func(t *testing.T) {
				server, client, response := connectReplaced(t)
				server.Put(configMap("a", "1"))
				feed := follow(t, client)
				time.Sleep(time.Minute)
				response.with(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900","continue":"x"},"items":[` + c.items + `]}`)
				server.Forget()
				server.CloseWatches()
				time.Sleep(c.time)
				require.ErrorContains(t, feed.Err(), "list of configmaps exceeds the limit of 1000 pages or 33554432 bytes")
				require.True(t, feed.shows("a", "1")())
				response.body.Store(nil)
				time.Sleep(time.Minute)
				require.NoError(t, feed.Err())
				require.Len(t, feed.All(), 1)
			})
		})
	}
}

// A change to a Node without UID changes no feed, and is reported.
func TestFeedIgnoresEventsOfNodesWithoutUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client, response := connectReplaced(t)
		server.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}})
		feed, err := apiserver.NewFeed(apiserver.FeedConfig[*v1.Node, *v1.NodeList]{Resource: client.Nodes(), Check: apiserver.CheckNode})
		require.NoError(t, err)
		apitest.Run(t, feed.Run)
		time.Sleep(time.Minute)
		event := `{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"900"}}}`
		response.event.Store(&event)
		server.CloseWatches()
		time.Sleep(time.Minute)
		require.ErrorContains(t, feed.Err(), "has no UID")
		require.Equal(t, map[string]string{"a": "b"}, feed.All()[0].Labels)
	})
}

// An event about an object of another kind is reported, and the objects are listed again.
func TestFeedListsAgainAfterAnEventOfAnotherKind(t *testing.T) {
	for _, object := range []string{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n"}}`, `{"kind":"NodeList","apiVersion":"v1","metadata":{}}`, `{"kind":"Status","apiVersion":"v1"}`} {
		synctest.Test(t, func(t *testing.T) {
			server, client, response := connectReplaced(t)
			server.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			var log strings.Builder
			feed, err := apiserver.NewFeed(apiserver.FeedConfig[*v1.Node, *v1.NodeList]{Resource: client.Nodes(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			apitest.Run(t, feed.Run)
			time.Sleep(time.Minute)
			event := `{"type":"MODIFIED","object":` + object + `}`
			response.event.Store(&event)
			server.CloseWatches()
			time.Sleep(time.Second)
			server.Put(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}}})
			time.Sleep(time.Minute)
			require.Equal(t, map[string]string{"a": "b"}, feed.All()[0].Labels, object)
			response.event.Store(nil)
			server.CloseWatches()
			time.Sleep(time.Minute)
			require.NoError(t, feed.Err())
			synctest.Wait()
			require.Contains(t, log.String(), "instead of a *v1.Node; listing again", object)
		})
	}
}

// A response of another kind is an error, and not an empty object.
func TestResponsesOfOtherKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, response := connectReplaced(t)
		for body, want := range map[string]string{
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`: "the response is a *v1.Pod instead of a *v1.ConfigMap",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{}}`: "the response is a *v1.ConfigMapList instead of a *v1.ConfigMap",
			`{"metadata":{"name":"a"}}`:                                "Object 'Kind' is missing",
			"null":                                                     "Object 'Kind' is missing",
		} {
			response.with(body)
			_, err := client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
			require.ErrorContains(t, err, want)
			_, err = client.ConfigMaps("ns").Update(t.Context(), configMap("a", "1"), metav1.UpdateOptions{})
			require.ErrorContains(t, err, want)
		}
	})
}

// Calls about the own Node refuse a response without a UID.
func TestNodeWithoutUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, response := connectReplaced(t)
		for _, body := range []string{`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`, `{"kind":"Node","apiVersion":"v1"}`, "null", "{}"} {
			response.with(body)
			_, err := client.OwnNode().GetNode(t.Context(), "n")
			require.Error(t, err, body)
			_, err = client.OwnNode().CreateNode(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
			require.Error(t, err, body)
			_, err = client.OwnNode().PatchNodeStatus(t.Context(), "n", []byte("{}"))
			require.Error(t, err, body)
		}
	})
}

// endless counts the bytes that were read from it.
type endless struct{ read *atomic.Int64 }

func (e endless) Read(p []byte) (int, error) {
	clear(p)
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// An endless response ends with an error that contains the limit.
func TestEndlessResponse(t *testing.T) {
	var read atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, endless{&read}) // until the client leaves
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{kind: Config, apiVersion: v1, current-context: c, clusters: [{name: k, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: k, user: u}}], users: [{name: u, user: {token: t}}]}", server.URL)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	client, err := apiserver.New(apiserver.Config{Kubeconfig: file, UserAgent: "test/1"})
	require.NoError(t, err)
	defer client.CloseConnections()
	_, err = client.Nodes().List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "response exceeds the limit of 33554432 bytes")
	require.Less(t, read.Load(), int64(64<<20))
}
