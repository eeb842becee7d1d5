package stats

import "time"

// Rates computes how many processors are kept busy, from one reading to the next, of
// whatever has a name. The zero value is ready. It remembers one reading of each name, and
// nothing runs between two. It is not safe for concurrent use.
type Rates struct {
	points map[string]point
}

type point struct {
	reading Usage // its time and CPU time
	rate    *uint64
}

// window is how far readings are apart from which a rate is computed: closer ones, of two
// who ask at nearly the same time, would say more of the kernel's clock than of the use.
const window = time.Second

// late is how much older a reading may be than one that came before it, by somebody who has
// asked at the same time. More means that the clock was set back.
const late = time.Minute

// Of is the rate of a name since the last reading that is at least a second old. It is
// what it was while there is no such reading, and nil before the second reading, or when
// the counter or the clock has run backwards: then the rate is that from this reading on.
func (r *Rates) Of(name string, u Usage) *uint64 {
	if u.CPU.Total == nil {
		return nil
	}
	if r.points == nil {
		r.points = map[string]point{}
	}
	last, known := r.points[name]
	reading := Usage{Time: u.Time, CPU: CPU{Total: u.CPU.Total}}
	switch {
	case !known, *u.CPU.Total < *last.reading.CPU.Total, last.reading.Time.Sub(u.Time) > late:
		last = point{reading: reading}
	case u.Time.Sub(last.reading.Time) >= window:
		last = point{reading: reading, rate: Rate(last.reading, reading)}
	}
	r.points[name] = last
	return last.rate
}

// Keep forgets all names but those for which it is true.
func (r *Rates) Keep(wanted func(name string) bool) {
	for name := range r.points {
		if !wanted(name) {
			delete(r.points, name)
		}
	}
}
