package events_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, cfg events.Config) (*apitest.Server, *events.Recorder) {
	server := apitest.Start(t)
	cfg.Client, cfg.Component, cfg.Host = server.Client(t), "kubelet", "worker"
	r, err := events.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.ErrorIs(t, r.Run(t.Context()), events.ErrAlreadyRun) })
	apitest.Run(t, r.Run)
	return server, r
}

func pod(name string) v1.ObjectReference {
	return v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: name, UID: "uid-" + "1", FieldPath: "spec.containers{app}"}
}

// An event has the fields that kubectl describe shows. Repetitions are counted.
func TestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := start(t, events.Config{})
		began := time.Now()
		for range 5 {
			r.Event(pod("web"), v1.EventTypeWarning, "BackOff", "again")
			time.Sleep(time.Minute)
		}
		r.Event(v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "worker"}, v1.EventTypeNormal, "Starting", "here we go")
		synctest.Wait()
		all := apitest.All[*v1.Event](server)
		require.Len(t, all, 2)
		for _, e := range all {
			require.Equal(t, v1.EventSource{Component: "kubelet", Host: "worker"}, e.Source)
			require.Equal(t, "kubelet", e.ReportingController)
			require.Equal(t, "worker", e.ReportingInstance)
			if e.InvolvedObject.Kind == "Node" {
				require.Equal(t, "default", e.Namespace)
				continue
			}
			require.Equal(t, pod("web"), e.InvolvedObject)
			require.Equal(t, "ns", e.Namespace)
			require.Equal(t, "Warning BackOff again", e.Type+" "+e.Reason+" "+e.Message)
			require.EqualValues(t, 5, e.Count)
			require.Equal(t, began.Unix(), e.FirstTimestamp.Unix())
			require.Equal(t, began.Add(4*time.Minute).Unix(), e.LastTimestamp.Unix())
		}
		require.Equal(t, 2, server.CountCalls("create", "events"))
		require.Equal(t, 4, server.CountCalls("patch", "events"))
	})
}

// Write works without Run. Its error names the event that the server refused.
func TestWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.Start(t)
		r, err := events.New(events.Config{Client: server.Client(t), Component: "kubelet", Host: "worker"})
		require.NoError(t, err)
		require.NoError(t, r.Write(t.Context(), pod("web"), v1.EventTypeWarning, "Failed", "why"))
		all := apitest.All[*v1.Event](server)
		require.Len(t, all, 1)
		require.Equal(t, "Warning Failed why", all[0].Type+" "+all[0].Reason+" "+all[0].Message)
		server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Status: 403} })
		err = r.Write(t.Context(), pod("web"), v1.EventTypeWarning, "Failed", "why")
		require.ErrorContains(t, err, "events: Failed of web")
		require.True(t, apierrors.IsForbidden(err))
	})
}

// Many similar events become one, and many events of one object are limited.
func TestCorrelation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := start(t, events.Config{})
		for i := range 200 {
			r.Event(pod("web"), v1.EventTypeWarning, "Failed", fmt.Sprint("error ", i))
			r.Event(pod("web"), v1.EventTypeNormal, fmt.Sprint("Reason", i), "text")
		}
		synctest.Wait()
		require.Equal(t, 50, server.CountCalls("create", "events")+server.CountCalls("patch", "events"), "25 of each type")
		combined := 0
		for _, e := range apitest.All[*v1.Event](server) {
			if strings.HasPrefix(e.Message, "(combined from similar events)") {
				combined++
			}
		}
		require.Equal(t, 1, combined)
	})
}

// Event never blocks. After hours without a server, the newest events are written, each once.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := start(t, events.Config{Size: 100})
		server.SetDown(true)
		began := time.Now()
		for i := range 300 {
			r.Event(pod(fmt.Sprint("web-", i)), v1.EventTypeNormal, "Started", "it runs")
			if i == 0 {
				synctest.Wait() // it is being written before others are queued
			}
		}
		require.Zero(t, time.Since(began))
		time.Sleep(30 * time.Minute)
		server.SetDown(false)
		time.Sleep(time.Minute)
		require.Len(t, apitest.All[*v1.Event](server), 100+1, "waiting events and the one in progress")
		require.Equal(t, 300-101, r.Lost())

		server.SetFault(func(c apitest.Call) apitest.Fault { return apitest.Fault{Status: 503} })
		r.Event(pod("late"), v1.EventTypeNormal, "Started", "it runs")
		time.Sleep(5 * time.Hour)
		n := len(server.Calls())
		server.SetFault(nil)
		r.Event(pod("new"), v1.EventTypeNormal, "Started", "it runs")
		time.Sleep(time.Minute)
		require.Len(t, server.Calls(), n+1, "the old event is dropped")
	})
}

// A refused event is dropped and logged. An event whose response was lost is written once. An event
// that the server has deleted is written again.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server, r := start(t, events.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Status: 403} })
		r.Event(pod("a"), v1.EventTypeNormal, "Started", "it runs")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, server.Calls(), 1)
		require.Contains(t, log.String(), "event not written")

		cut := true
		server.SetFault(func(apitest.Call) apitest.Fault {
			defer func() { cut = false }()
			return apitest.Fault{Cut: cut}
		})
		r.Event(pod("b"), v1.EventTypeNormal, "Started", "it runs")
		time.Sleep(time.Minute)
		require.Len(t, apitest.All[*v1.Event](server), 1)
		for _, e := range apitest.All[*v1.Event](server) {
			server.Remove(e)
		}
		r.Event(pod("b"), v1.EventTypeNormal, "Started", "it runs")
		time.Sleep(time.Minute)
		all := apitest.All[*v1.Event](server)
		require.Len(t, all, 1)
		require.EqualValues(t, 2, all[0].Count)
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := events.New(events.Config{Size: -1})
	require.EqualError(t, err, `events: Config.Client is required
events: Config.Component is required
events: Config.Host is required
events: Config.Size is negative: -1`)
}

// Events in a terminating or deleted namespace are dropped without a warning; other refusals are
// logged as warnings.
func TestNamespaceInDeletion(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause}}
	group := schema.GroupResource{Resource: "namespaces"}
	for name, test := range map[string]struct {
		err     error
		leaving bool
	}{
		"terminating":      {terminating, true},
		"gone":             {apierrors.NewNotFound(group, "ns"), true},
		"forbidden":        {apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", errors.New("no")), false},
		"another resource": {apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, "web"), false},
		"network":          {errors.New("away"), false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.leaving, events.Leaving(test.err)) })
	}
}
