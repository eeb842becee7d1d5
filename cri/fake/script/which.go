package script

import (
	"math"
	"strconv"
)

// Which says at what counts a rule fires. The zero value is every count. Either
// First and Last, or Every, or Percent is set.
type Which struct {
	// First and Last bound the counts, both included, from 1. Last zero: no
	// upper bound.
	First, Last int
	// Every fires at each multiple of it.
	Every int
	// Percent fires at random, more than 0 and up to 100.
	Percent float64
}

// fires tells whether a rule fires at count n. draw is random, from 0 up to but
// not including 1.
func (w Which) fires(n int, draw float64) bool {
	switch {
	case w.Percent > 0:
		return draw*100 < w.Percent
	case w.Every > 0:
		return n%w.Every == 0
	default:
		return n >= w.First && (w.Last == 0 || n <= w.Last)
	}
}

// problem tells what is wrong, "" when nothing is.
func (w Which) problem() string {
	forms := 0
	for _, set := range []bool{w.First != 0 || w.Last != 0, w.Every != 0, w.Percent != 0} {
		if set {
			forms++
		}
	}
	switch {
	case forms > 1:
		return "only one of First and Last, Every and Percent can be set"
	case w.First < 0 || w.Every < 0 || w.Last < 0 || (w.First == 0 && w.Last != 0):
		return "counts begin with 1"
	case w.Last != 0 && w.Last < w.First:
		return ordinal(w.Last) + " comes before " + ordinal(w.First)
	case math.IsNaN(w.Percent) || w.Percent < 0 || w.Percent > 100:
		return "a chance is more than 0% and up to 100%"
	}
	return ""
}

func (w Which) String() string {
	switch {
	case w.Percent != 0:
		return strconv.FormatFloat(w.Percent, 'f', -1, 64) + "% of"
	case w.Every != 0:
		return "every " + ordinal(w.Every)
	case w.First == 0:
		return "every"
	case w.Last == 0:
		return "from the " + ordinal(w.First)
	case w.First == w.Last:
		return ordinal(w.First)
	default:
		return ordinal(w.First) + " to " + ordinal(w.Last)
	}
}

// ordinal writes 1st, 2nd, 3rd, 4th, 11th, 21st.
func ordinal(n int) string {
	suffix := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
