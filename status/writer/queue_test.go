package writer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/status"
)

func placeOf(name string) *place {
	return &place{owner: &delivery{slot: slot{ref: status.Ref{Name: name}}}}
}

func at(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }

func TestQueueOrder(t *testing.T) {
	q := newQueue()
	for i, u := range []urgency{urgentDetail, urgentTransition, urgentEnd} {
		for j := range 3 {
			// Of each three, the middle one waits longest.
			q.put(placeOf(u.String()+string(rune('a'+j))), u, at(3*i+[]int{2, 1, 3}[j]), time.Time{})
		}
	}
	var got []string
	for {
		p, until := q.pick(now)
		if p == nil {
			require.Zero(t, until)
			break
		}
		require.False(t, p.ready.In() || p.later.In())
		got = append(got, p.owner.ref.Name)
	}
	require.Equal(t, []string{
		"the end of the podb", "the end of the poda", "the end of the podc",
		"phase or readinessb", "phase or readinessa", "phase or readinessc",
		"detailsb", "detailsa", "detailsc",
	}, got)
}

func TestQueueLater(t *testing.T) {
	q := newQueue()
	soon, late := placeOf("soon"), placeOf("late")
	q.put(late, urgentEnd, now, at(20))
	q.put(soon, urgentDetail, now, at(10))
	p, until := q.pick(now)
	require.Nil(t, p)
	require.Equal(t, at(10), until)
	p, _ = q.pick(at(10))
	require.Equal(t, soon, p)
	q.put(late, urgentEnd, now, at(15)) // it has another place now
	p, until = q.pick(at(10))
	require.Nil(t, p)
	require.Equal(t, at(15), until)
	q.remove(late)
	q.remove(late)
	p, until = q.pick(at(100))
	require.Nil(t, p)
	require.Zero(t, until)
}

// Whatever is put, moved, removed and picked: nobody is lost or comes twice.
func TestQueueAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	q := newQueue()
	places := make([]*place, 40)
	in := map[*place]bool{}
	for i := range places {
		places[i] = placeOf(string(rune('a' + i)))
	}
	clock := now
	for range 20000 {
		clock = clock.Add(time.Millisecond)
		p := places[random.IntN(len(places))]
		switch random.IntN(5) {
		case 0, 1:
			when := time.Time{}
			if random.IntN(3) == 0 {
				when = clock.Add(time.Duration(random.IntN(50)) * time.Millisecond)
			}
			q.put(p, urgency(random.IntN(int(urgencies))), clock, when)
			in[p] = true
		case 2:
			q.remove(p)
			delete(in, p)
		default:
			picked, until := q.pick(clock)
			if picked == nil {
				for p := range in {
					require.True(t, p.at.After(clock), "somebody was not picked")
					require.False(t, until.After(p.at))
				}
				continue
			}
			require.True(t, in[picked])
			delete(in, picked)
		}
		require.Equal(t, len(in), q.ready.Len()+q.later.Len())
	}
}

// Nobody waits forever behind what is more urgent.
func TestNobodyStarves(t *testing.T) {
	q := newQueue()
	detail := placeOf("detail")
	q.put(detail, urgentDetail, now, time.Time{})
	for i := 0; ; i++ {
		q.put(placeOf("end"), urgentEnd, at(i), time.Time{})
		p, _ := q.pick(at(i))
		if p == detail {
			require.False(t, at(i).Before(now.Add(2*lead)))
			return
		}
		require.False(t, at(i).After(now.Add(2*lead)), "it waits too long")
	}
}
