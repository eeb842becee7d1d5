package kubeletapi

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"
)

// The words of a query are read as the API server reads those of its own options: of
// several values the first counts, an empty one is none, but for switches, where only
// "false" and "0" are off.

// flag tells whether a switch is on.
func flag(query url.Values, name string) bool {
	values, given := query[name]
	return given && (len(values) == 0 || (values[0] != "false" && values[0] != "0"))
}

// number reads a whole number of at least so much; nil if there is none.
func number(query url.Values, name string, least int64) (*int64, error) {
	text := query.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return nil, bad(fmt.Sprintf("%s: %.40q is not a whole number from %d to %d", name, text, least, int64(math.MaxInt64)))
	}
	return &n, nil
}

// seconds reads a number of seconds; what is longer than a Duration counts as its longest.
func seconds(query url.Values, name string) (time.Duration, error) {
	n, err := number(query, name, 1)
	if n == nil {
		return 0, err
	}
	return time.Duration(min(*n, int64(math.MaxInt64/time.Second))) * time.Second, nil
}

func moment(query url.Values, name string) (time.Time, error) {
	text := query.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, bad(fmt.Sprintf("%s: %.60q is not a time such as 2006-01-02T15:04:05Z", name, text))
	}
	return t, nil
}
