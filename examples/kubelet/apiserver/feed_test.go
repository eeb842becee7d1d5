package apiserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

type followed struct {
	*apiserver.Feed[*v1.ConfigMap, *v1.ConfigMapList]

	mu      sync.Mutex
	changes []types.NamespacedName
	last    time.Time
	longest time.Duration
}

func follow(t *testing.T, client *apiserver.Client) *followed {
	f := &followed{}
	var err error
	f.Feed, err = apiserver.NewFeed(apiserver.FeedConfig[*v1.ConfigMap, *v1.ConfigMapList]{
		Resource: client.ConfigMaps(""), OnChange: f.changed,
	})
	require.NoError(t, err)
	apitest.Run(t, f.Run)
	return f
}

func (f *followed) changed(names []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, names...)
	now := time.Now()
	// A rest of a minute between tests does not count.
	if gap := now.Sub(f.last); !f.last.IsZero() && gap < 30*time.Second {
		f.longest = max(f.longest, gap)
	}
	f.last = now
}

func (f *followed) gap() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.longest
}

func (f *followed) shows(name, value string) func() bool {
	return func() bool {
		m, ok := f.Get("ns", name)
		return ok && m.Data["key"] == value
	}
}

// Changes by others arrive at once and are all reported. Trim removes unused fields.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		m := configMap("a", "1")
		m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		server.Put(m)
		feed := follow(t, client)
		synctest.Wait()
		require.True(t, feed.HasSynced())
		require.NoError(t, feed.Err())
		got, ok := feed.Get("ns", "a")
		require.True(t, ok)
		require.Empty(t, got.ManagedFields)
		server.Put(configMap("b", "2"))
		server.Put(configMap("a", "3"))
		server.Remove(configMap("b", ""))
		synctest.Wait()
		require.True(t, feed.shows("a", "3")())
		require.Len(t, feed.All(), 1)
		name := func(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }
		require.Equal(t, []types.NamespacedName{name("a"), name("b"), name("a"), name("b")}, feed.changes)
		require.Equal(t, 1, server.Watches())
		require.ErrorIs(t, feed.Run(t.Context()), apiserver.ErrAlreadyRun)
	})
}

// The feed keeps its objects during all failures of the server, and is current soon after they end.
func TestFeedThroughOutages(t *testing.T) {
	change := func(s *apitest.Server) {
		s.Put(configMap("a", "2"))
		s.Remove(configMap("gone", ""))
	}
	// faulty makes a server fail for some time, and ends all watches first.
	faulty := func(f apitest.Fault, d time.Duration) func(*apitest.Server) {
		return func(s *apitest.Server) {
			s.SetFault(func(apitest.Call) apitest.Fault { return f })
			s.CloseWatches()
			change(s)
			if time.Sleep(d); d > 0 {
				s.SetFault(nil)
			}
		}
	}
	for name, outage := range map[string]func(*apitest.Server){
		"away for hours": func(s *apitest.Server) {
			s.SetDown(true)
			change(s)
			time.Sleep(5 * time.Hour)
			s.SetDown(false)
		},
		"answers 500":      faulty(apitest.Fault{Status: 500}, 2*time.Hour),
		"answers 429":      faulty(apitest.Fault{Status: 429, RetryAfter: 1}, 2*time.Hour),
		"cuts connections": faulty(apitest.Fault{Cut: true}, 2*time.Hour),
		"slow":             faulty(apitest.Fault{Delay: 2 * time.Second}, 0),
		"watches too old": func(s *apitest.Server) {
			s.SetDown(true)
			change(s)
			s.Forget()
			s.SetDown(false)
		},
		"flapping": func(s *apitest.Server) {
			for i := range 50 {
				s.SetDown(i%2 == 0)
				s.Put(configMap("a", fmt.Sprint("flap", i)))
				time.Sleep(7 * time.Second)
			}
			s.SetDown(false)
			change(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := connect(t)
				server.Put(configMap("a", "1"))
				server.Put(configMap("gone", "1"))
				feed := follow(t, client)
				time.Sleep(time.Minute)
				require.True(t, feed.shows("a", "1")())
				calls := len(server.Calls())
				began := time.Now()
				outage(server)
				require.NotEmpty(t, feed.All())
				time.Sleep(40 * time.Second) // the longest pause and the slowest responses
				require.True(t, feed.shows("a", "2")(), "%v", feed.All())
				_, there := feed.Get("ns", "gone")
				require.False(t, there)
				require.NoError(t, feed.Err())
				calls = len(server.Calls()) - calls
				require.LessOrEqual(t, calls, int(time.Since(began)/time.Second)+20, "calls in the outage")
			})
		})
	}
}

// After CloseConnections, a watch resumes on a new connection within a second.
func TestCloseConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		feed := follow(t, client)
		time.Sleep(time.Minute)
		client.CloseConnections()
		time.Sleep(time.Second)
		server.Put(configMap("a", "1"))
		synctest.Wait()
		require.True(t, feed.shows("a", "1")())
		require.NoError(t, feed.Err())
	})
}

// A failure and its end are logged once.
func TestFeedLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		var log lines
		feed, err := apiserver.NewFeed(apiserver.FeedConfig[*v1.ConfigMap, *v1.ConfigMapList]{
			Resource: client.ConfigMaps(""), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		apitest.Run(t, feed.Run)
		time.Sleep(time.Minute)
		require.Empty(t, log.String())
		server.SetDown(true)
		time.Sleep(4 * time.Minute)
		server.SetDown(false)
		time.Sleep(time.Minute)
		require.Equal(t, 1, strings.Count(log.String(), "cannot read from the API server"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "reading from the API server works again"), log.String())
	})
}

// A feed of a server that never responded returns an error, is not synced, and ends at once.
func TestFeedOfUnreachableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		server.SetDown(true)
		feed, err := apiserver.NewFeed(apiserver.FeedConfig[*v1.ConfigMap, *v1.ConfigMapList]{Resource: client.ConfigMaps("")})
		require.NoError(t, err)
		require.Error(t, feed.Err())
		for range 3 {
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			began := time.Now()
			require.NoError(t, feed.Run(ctx))
			stop()
			require.Equal(t, time.Hour, time.Since(began))
			require.False(t, feed.HasSynced())
			require.ErrorContains(t, feed.Err(), "connection refused")
		}
	})
}
