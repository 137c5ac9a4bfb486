// The plot's horizontal axis: time, or the track's events at equal distances.
//
// A place is a number on that axis: a time in the page's unit, or a number of events. State e begins at place e.

import { lowerBound } from "../data/track.js";

class TimeAlong {
  constructor(track) {
    this.track = track;
    this.low = track.from;
    this.high = track.to;
    this.least = 20 / track.timeUnit; // of a window
  }

  /** The first event that is not before a place. */
  firstAt(place, from = 0) {
    return lowerBound(this.track.time, place, from);
  }

  ofTime(time) {
    return time;
  }

  timeOf(place) {
    return place;
  }

  /** The place where a state begins; the base begins at the axis's beginning. */
  ofState(event) {
    return event < 0 ? this.low : this.track.time[event];
  }
}

class EventAlong {
  constructor(track) {
    this.track = track;
    this.low = 0;
    this.high = Math.max(track.count, 1);
    this.least = Math.min(4, this.high);
  }

  firstAt(place) {
    return Math.min(Math.max(Math.ceil(place), 0), this.track.count);
  }

  ofTime(time) {
    return time >= this.track.to ? this.high : lowerBound(this.track.time, time);
  }

  timeOf(place) {
    const { time, count, from, to } = this.track;
    const event = Math.floor(place);
    if (event < 0) return from;
    return event < count ? time[event] : to;
  }

  ofState(event) {
    return Math.max(event, 0);
  }
}

/** Every axis by its name in the page's address. */
export const ALONG = {
  time: { name: "wall clock", Axis: TimeAlong },
  events: { name: "events", Axis: EventAlong },
};

/** The axis of a track that a state asks for. */
export function alongOf(track, { along }) {
  track.axes ??= {};
  return track.axes[along] ??= new ALONG[along].Axis(track);
}

/** The places where a block's life begins and ends. */
export function placesOf(track, axis, id) {
  const { birth, death } = track.blocks;
  return [axis.ofState(birth[id]), death[id] < 0 ? axis.high : axis.ofState(death[id])];
}
