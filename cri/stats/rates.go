package stats

import "time"

// Rates computes CPU rates of named objects from consecutive readings. The zero value is ready to
// use. It keeps one reading per name and starts no goroutine. It is not safe for concurrent use.
type Rates struct {
	points map[string]point
}

type point struct {
	reading Usage // only Time and CPU.Total
	rate    *uint64
}

// window is the shortest interval between the two readings of a rate. With shorter ones, from two
// concurrent callers, the resolution of the kernel's clock would distort the rate.
const window = time.Second

// maxLateness is the greatest age difference to the previous reading, from a concurrent caller. A
// greater difference means that the clock was set back.
const maxLateness = time.Minute

// Of adds a reading and returns the name's rate since the last reading that is at least one second
// older. With a shorter interval it returns the previous rate. It returns nil for the first reading
// and after the counter or the clock ran backwards; the rate then starts anew.
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
	case !known, *u.CPU.Total < *last.reading.CPU.Total, last.reading.Time.Sub(u.Time) > maxLateness:
		last = point{reading: reading}
	case u.Time.Sub(last.reading.Time) >= window:
		last = point{reading: reading, rate: Rate(last.reading, reading)}
	}
	r.points[name] = last
	return last.rate
}

// Keep forgets all names for which wanted returns false.
func (r *Rates) Keep(wanted func(name string) bool) {
	for name := range r.points {
		if !wanted(name) {
			delete(r.points, name)
		}
	}
}
