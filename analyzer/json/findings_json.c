#include "json/findings_json.h"

#include "diagnose/advice.h"
#include "diagnose/diagnose.h"
#include "diagnose/message.h"
#include "json/json_util.h"
#include "report/rank_groups.h"

static json_t *metrics_need_json(const struct metrics *x)
{
	json_t *j = json_object();

#define NEED PUT_MEMBER
#include "diagnose/findings.def"
	return j;
}

static json_t *measured_need_json(const struct rank *of, const struct measured_need *x)
{
	json_t *j = json_object();

#define MEASURED_NEED PUT_MEMBER
#include "diagnose/findings.def"
	return j;
}

json_t *need_json(const struct report *of, const struct rank *r)
{
	if (of->need && r == report_worst(of))
		return measured_need_json(r, of->need);
	return rank_has_need(r) ? metrics_need_json(r->metrics) : json_null();
}

json_t *inference_json(const struct rank *of)
{
	const struct metrics *x = of->metrics;
	json_t *j;

	if (!x || !x->inference)
		return json_null();
	j = json_object();
#define INFERENCE PUT_MEMBER
#include "diagnose/findings.def"
	return j;
}

static json_t *evidence_json(const struct finding *f)
{
	json_t *o = json_object();

	for (size_t i = 0; i < f->evidence_count; i++)
		set(o, f->evidence[i].name,
		    f->evidence[i].unit == UNIT_FLAG ? json_boolean(f->evidence[i].value != 0)
						     : json_integer(f->evidence[i].value));
	if (f->stack)
		set(o, "place", text(f->stack));
	return o;
}

static json_t *remedy_json(const struct remedy *x)
{
	json_t *j = json_object();

#define REMEDY PUT_MEMBER
#include "diagnose/findings.def"
	return j;
}

static json_t *remedies_json(const struct finding *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->remedy_count; i++)
		json_array_append_new(list, remedy_json(&f->remedies[i]));
	return list;
}

static json_t *measured_of_rule_json(const struct measured *x)
{
	json_t *j = json_object();

#define MEASURED PUT_MEMBER
#include "diagnose/findings.def"
	return j;
}

static json_t *measured_json(const struct finding *f)
{
	return f->measured ? measured_of_rule_json(f->measured) : NULL;
}

json_t *finding_json(const struct report *of, size_t index)
{
	const struct finding *x = &of->diagnosis->findings[index];
	json_t *j = json_object();

#define FINDING PUT
#include "diagnose/findings.def"
	return j;
}
