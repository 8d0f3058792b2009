// Package cron reads cron expressions of five fields and says when they are due in a time zone. It is pure: it reads no clock.
//
// The fields are minute, hour, day of month, month and day of week, with lists, ranges, steps and English names of three letters. As in
// cron(8), a day matches if it matches one of the two fields for days, unless one of them begins with *: then both must match.
//
// A time of the day that does not exist, because clocks are set forward, is due at the next instant that does. One that exists twice,
// because clocks are set back, is due the first time. So an expression of one time of the day is due exactly once on each of its days. What
// shall happen at equal distances, also in the hour that occurs twice, is better said as an interval.
package cron
