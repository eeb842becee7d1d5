package logs

import "slices"

// followerSet is all followers of a watch. It is kept so that a period costs as little
// as it can while nothing happens.
type followerSet struct {
	list []*follower // in no order; each knows its place
	dirs map[string]*watchedDir
	// unwatched are those of dirs that the notifier does not watch.
	unwatched map[*watchedDir]struct{}
	// asked are the followers whose containers have the names in ids; nil when
	// they have to be gathered anew. Both are replaced, never changed.
	asked []*follower
	ids   []string
}

type watchedDir struct {
	path      string
	watched   bool // by the notifier
	warned    bool
	followers map[*follower]struct{}
}

func newFollowerSet() followerSet {
	return followerSet{dirs: map[string]*watchedDir{}, unwatched: map[*watchedDir]struct{}{}}
}

func (s *followerSet) add(f *follower) *watchedDir {
	d := s.dirs[f.dir]
	if d == nil {
		d = &watchedDir{path: f.dir, followers: map[*follower]struct{}{}}
		s.dirs[f.dir] = d
		s.setWatched(d, false)
	}
	d.followers[f] = struct{}{}
	f.place = len(s.list)
	s.list = append(s.list, f)
	s.asked, s.ids = nil, nil
	return d
}

// remove tells whether f was the last one in its directory.
func (s *followerSet) remove(f *follower) bool {
	last := len(s.list) - 1
	s.list[f.place] = s.list[last]
	s.list[f.place].place = f.place
	s.list[last] = nil
	s.list = s.list[:last]
	s.asked, s.ids = nil, nil
	d := s.dirs[f.dir]
	delete(d.followers, f)
	if len(d.followers) > 0 {
		return false
	}
	delete(s.dirs, f.dir)
	delete(s.unwatched, d)
	return true
}

func (s *followerSet) setWatched(d *watchedDir, watched bool) {
	d.watched = watched
	if watched {
		delete(s.unwatched, d)
	} else {
		s.unwatched[d] = struct{}{}
	}
}

func (s *followerSet) noneWatched() {
	for _, d := range s.dirs {
		s.setWatched(d, false)
	}
}

func (s *followerSet) all() []*follower { return slices.Clone(s.list) }

// due returns the followers that are to be looked at in the given period: those
// in directories that are not watched, and some of the others.
func (s *followerSet) due(period int) []*follower {
	var due []*follower
	for i := period % watchedLooks; i < len(s.list); i += watchedLooks {
		due = append(due, s.list[i])
	}
	for d := range s.unwatched {
		for f := range d.followers {
			due = append(due, f)
		}
	}
	return due
}

// askable returns the followers that have a container, and the containers. They
// are not to be changed.
func (s *followerSet) askable() ([]*follower, []string) {
	if s.asked == nil {
		s.asked = make([]*follower, 0, len(s.list))
		s.ids = make([]string, 0, len(s.list))
		for _, f := range s.list {
			if f.container != "" {
				s.asked, s.ids = append(s.asked, f), append(s.ids, f.container)
			}
		}
	}
	return s.asked, s.ids
}
