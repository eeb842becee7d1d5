package eventsourcetest_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eventsourcetest"
)

func TestShouldSyncConforms(t *testing.T) {
	eventsourcetest.Run(t, eventsourcetest.Config{New: func(testing.TB) eventsourcetest.Subject {
		var mu sync.Mutex
		pods := map[types.UID]*v1.Pod{}
		list := func() []*v1.Pod {
			mu.Lock()
			defer mu.Unlock()
			return slices.Collect(maps.Values(pods))
		}
		return eventsourcetest.Subject{
			Source: syncloop.ShouldSync(0, list, func(*v1.Pod, time.Time) bool { return true }),
			Touch: func() syncloop.Event {
				mu.Lock()
				defer mu.Unlock()
				uid := types.UID(fmt.Sprint(len(pods)))
				pods[uid] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}
				return syncloop.Event{Kind: syncloop.SyncDue, UID: uid}
			},
		}
	}})
}

func TestInboxConforms(t *testing.T) {
	eventsourcetest.Run(t, eventsourcetest.Config{New: func(testing.TB) eventsourcetest.Subject {
		inbox, n := &syncloop.Inbox{}, 0
		return eventsourcetest.Subject{Source: inbox, Touch: func() syncloop.Event {
			n++
			e := syncloop.Event{Kind: syncloop.PodDirty, UID: types.UID(fmt.Sprint(n))}
			inbox.Emit(e)
			return e
		}}
	}})
}
