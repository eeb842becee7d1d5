package gc

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/internal/fields"
)

var (
	started = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now     = started.Add(24 * time.Hour)
)

func policy() Policy {
	p := Policy{}
	p.complete(fields.Of("gc: Config"))
	return p
}

func ids(images []Image) (out string) {
	for _, i := range images {
		out += i.ID + " "
	}
	return out
}

func ago(d time.Duration) time.Time { return now.Add(-d) }

// C43, C44: the images that may be removed, and their order.
func TestComputeCandidates(t *testing.T) {
	images := []Image{
		{ID: "used", InUse: true, LastUsed: now},
		{ID: "pinned", Pinned: true},
		{ID: "young", FirstDetected: ago(2*time.Minute - 1)},
		{ID: "old-enough", FirstDetected: ago(2 * time.Minute)},
		{ID: "was-used-lately", LastUsed: ago(time.Minute)},
		{ID: "was-used", LastUsed: ago(time.Hour)},
		{ID: "b-from-the-start"},
		{ID: "a-from-the-start"},
		{ID: "never-used", FirstDetected: ago(3 * time.Hour)},
	}
	plan := Compute(Input{Now: now, Started: started, Images: images, Policy: policy()})
	require.Empty(t, plan.Old)
	require.Zero(t, plan.Free)
	require.Equal(t, "a-from-the-start b-from-the-start never-used old-enough was-used was-used-lately ", ids(plan.Unused))
}

// An image is removed by age after MaxAge without use, counted at the earliest from the start.
func TestComputeAge(t *testing.T) {
	p := policy()
	p.MaxAge = time.Hour
	images := []Image{
		{ID: "from-the-start"},
		{ID: "used-at-the-limit", LastUsed: ago(time.Hour)},
		{ID: "used-before", LastUsed: ago(time.Hour + 1)},
		{ID: "seen-lately", FirstDetected: ago(time.Minute)},
		{ID: "seen-before", FirstDetected: ago(2 * time.Hour)},
		{ID: "in-use", InUse: true, LastUsed: ago(5 * time.Hour)},
		{ID: "pinned", Pinned: true},
	}
	plan := Compute(Input{Now: now, Started: started, Images: images, Policy: p})
	require.Equal(t, "from-the-start seen-before used-before ", ids(plan.Old))
	require.Equal(t, "used-at-the-limit ", ids(plan.Unused))
	young := Compute(Input{Now: now, Started: ago(time.Hour), Images: images, Policy: p})
	require.Empty(t, young.Old, "the agent has not run for longer than MaxAge")
}

// C44 and the thresholds: usage is reduced exactly to the low one, if it has reached the high one.
func TestComputeFree(t *testing.T) {
	for _, tc := range []struct {
		capacity, available uint64
		high, low           int
		used                int
		free                uint64
	}{
		{1000, 150, 85, 80, 85, 50},
		{1000, 159, 85, 80, 85, 41},
		{1000, 160, 85, 80, 84, 0},
		{1000, 0, 85, 80, 100, 200},
		{1000, 1000, 85, 80, 0, 0},
		{1000, 2000, 85, 80, 0, 0},
		{100, 29, 71, 70, 71, 1}, // in floating point 29 of 100 are 28 percent
		{1000, 0, 100, 80, 100, 0},
		{0, 0, 85, 80, 0, 0},
		{999, 10, 85, 80, 99, 189},
		{1 << 63, 1 << 60, 85, 80, 88, 1<<63/5 - 1<<60},
	} {
		disk := Disk{Capacity: tc.capacity, Available: tc.available}
		require.Equal(t, tc.used, disk.UsedPercent(), "%+v", tc)
		plan := Compute(Input{Now: now, Disk: disk, Policy: Policy{HighPercent: tc.high, LowPercent: tc.low}})
		require.Equal(t, tc.free, plan.Free, "%+v", tc)
	}
}

// FuzzCompute checks that a plan removes no kept image and none twice, and frees exactly the right
// amount.
func FuzzCompute(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed, uint8(85), uint8(80))
	}
	f.Fuzz(func(t *testing.T, seed uint64, high, low uint8) {
		p := Policy{HighPercent: int(high), LowPercent: int(low), MaxAge: time.Hour}
		check := fields.Of("gc: Config")
		if p.complete(check); check.Err() != nil {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		in := Input{Now: now, Started: started, Policy: p, Disk: Disk{Capacity: r.Uint64(), Available: r.Uint64()}}
		in.Disk.Available = min(in.Disk.Available, in.Disk.Capacity)
		at := func() time.Time { return ago(time.Duration(r.IntN(int(2 * time.Hour)))) }
		for i := range r.IntN(30) {
			in.Images = append(in.Images, Image{
				ID: fmt.Sprint(i), Pinned: r.IntN(5) == 0, InUse: r.IntN(3) == 0, FirstDetected: at(), LastUsed: at(),
			})
		}
		plan := Compute(in)
		seen := map[string]bool{}
		for _, image := range append(plan.Old, plan.Unused...) {
			require.False(t, image.Pinned || image.InUse || seen[image.ID])
			require.GreaterOrEqual(t, now.Sub(image.FirstDetected), p.MinAge)
			seen[image.ID] = true
		}
		for i := 1; i < len(plan.Unused); i++ {
			require.False(t, plan.Unused[i].LastUsed.Before(plan.Unused[i-1].LastUsed))
		}
		require.Equal(t, plan.Free > 0, in.Disk.UsedPercent() >= p.HighPercent && p.HighPercent < 100 && plan.Free > 0)
		after := Disk{Capacity: in.Disk.Capacity, Available: in.Disk.Available + plan.Free}
		if plan.Free > 0 {
			require.LessOrEqual(t, after.UsedPercent(), p.LowPercent+1)
			after.Available--
			require.GreaterOrEqual(t, after.UsedPercent(), p.LowPercent)
		} else if p.HighPercent < 100 && in.Disk.Capacity > 0 {
			require.True(t, in.Disk.UsedPercent() < p.HighPercent)
		}
	})
}

func TestSizeText(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1 << 10: "1.0 KiB", 1536 << 10: "1.5 MiB", 20 << 30: "20.0 GiB", 3 << 50: "3072.0 TiB",
	} {
		require.Equal(t, want, sizeText(bytes))
	}
}
